# The kernel's client mounts Gannet on the kernel's devices, in one guest: data is there what it is in memory.
# server: script
# over: rxe siw rxe@6.12
# limit: 300

devices
serve_verbs
. /run/lab/scenarios/mount.sh
. /run/lab/scenarios/data.sh
stop_verbs
