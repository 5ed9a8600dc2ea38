# The tests of the provider for devices pass on the kernel's devices, and leave nothing behind there.
# server: script
# over: rxe siw rxe@6.12
# program: gannet-verbs devices
# limit: 600

devices
export GANNET_VERBS_ADDRESS=$ADDRESS
# One after the other: an emulated guest has two slow processors.
"$PROGRAM" --ignored --test-threads=1 --nocapture
devices_free
