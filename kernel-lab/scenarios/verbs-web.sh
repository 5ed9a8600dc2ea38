# The web server of the examples serves files on the kernel's devices, and its client fetches them, in one guest.
# server: script
# over: rxe siw rxe@6.12
# program: gannet example web
# limit: 300

# refused PATH ANSWER: the server must refuse a file by name, and its client must say so.
refused() (
    ! "$PROGRAM" fetch "$ADDRESS:8080" "$1" --provider verbs >/run/out 2>/run/err || fail "$1 was served"
    grep -q "$2" /run/err || fail "$1: $(cat /run/err)"
)

devices
rm -rf /run/served
mkdir /run/served
# Nothing, what fits into one packet, what does not, and more than one Write.
for bytes in 0 1 4096 65537 5000003; do noise /run/served/$bytes $bytes; done
"$PROGRAM" serve /run/served "$ADDRESS:8080" --provider verbs &
server=$!
listening 8080 $server
for bytes in 0 1 4096 65537 5000003; do
    "$PROGRAM" fetch "$ADDRESS:8080" /$bytes --provider verbs >/run/out
    cmp /run/served/$bytes /run/out
done
refused /none 404
refused /../export 403
kill $server
wait $server || [ $? = 143 ]
devices_free
