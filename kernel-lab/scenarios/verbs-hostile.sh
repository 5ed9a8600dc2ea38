# A peer with raw access to the stream of siw cannot harm Gannet, nor the kernel's client beside it.
# server: script
# over: siw
# run: named
# limit: 300

# The stream of rxe has no such peer: the tests of `verbs` have what a peer can do wrong through verbs.
devices
serve_verbs
. /run/lab/scenarios/attacks.sh
stop_verbs
