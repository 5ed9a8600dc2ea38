# Peers that break rules, leave, die or stay silent on a device cannot harm others, and leave nothing behind there. On siw,
# a peer with raw access to the stream cannot harm Gannet either, nor the kernel's client beside it.
# server: script
# over: rxe siw rxe@6.12
# program: gannet-verbs peers
# limit: 900

devices
export GANNET_VERBS_ADDRESS=$ADDRESS
# 1,000 half-open connections are as many descriptors.
ulimit -n 8192
# One after the other, without the other processes of tests, and without those that need another machine or end the device.
set -- --skip connects_ --skip a_machine_that_dies --skip a_removed_device
# A fault of rxe of Linux 6.12, not of 6.1: where a pair with shared receives breaks, its driver flushes nothing. So a
# message that is cut off takes its receive for good.
case $(uname -r) in 6.12.*) set -- "$@" --skip messages_that_are_cut_off ;; esac
"$PROGRAM" --ignored --test-threads=1 --nocapture "$@"
devices_free

# The stream of rxe has no such peer.
if [ "$OVER" = siw ]; then
    serve_verbs
    . /run/lab/scenarios/attacks.sh
    stop_verbs
fi
