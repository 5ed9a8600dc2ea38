# Gannet's client works on the kernel's server through the kernel's devices, in one guest.
# server: knfsd
# over: rxe siw rxe@6.12
# limit: 300

devices
HOST=$ADDRESS RDMA_PORT=20049 MOUNT_PORT=20048
. /run/lab/scenarios/client.sh
devices_free
