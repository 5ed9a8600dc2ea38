# Two clients of the same files at once: each sees what the other did, and what both want, one gets.
# server: gannet --no-root-squash
# over: rdma tcp
# guests: 2

if [ "$GUEST" = 1 ]; then
    noise noise 100000
    mkdir "$EXPORT/folder"
fi
host meet
cp noise /run/noise
# Names are looked up again each time; data is kept.
mount_gannet /mnt lookupcache=none
python3 -S /run/lab/scenarios/pair.py /mnt/folder >"won-$GUEST"
host meet
[ $(($(cat won-1 won-2 | sed 's/won //' | paste -sd +))) = 60 ] || fail 'both, or none, have created a name'
umount /mnt
