# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_gannet_global_optspecs
    string join \n log= log-format= busy-poll= h/help V/version
end

function __fish_gannet_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_gannet_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_gannet_using_subcommand
    set -l cmd (__fish_gannet_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c gannet -n "__fish_gannet_needs_command" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_needs_command" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_needs_command" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_needs_command" -s V -l version -d 'Print version'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "demo" -d 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "serve" -d 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mount" -d 'Mount what a server exports on a directory, until it is unmounted, SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "volume" -d 'Make, show, extend and check striped volumes, which `gannet serve --volume` serves'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "ls" -d 'List directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "cat" -d 'Write files to standard output'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "stat" -d 'Show attributes of files'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "cp" -d 'Copy files and trees to, from and between servers'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mkdir" -d 'Make directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "rm" -d 'Remove files and directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mv" -d 'Move or rename on one server'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "df" -d 'Show space and inodes'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "bench" -d 'Measure a server, or tiles of a file of a volume (bench tile)'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "doctor" -d 'Say what of this machine, or of a server, stands in the way, and what to do about it'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "dump" -d 'Show what a capture of NFS over iWARP or TCP holds, a line a message'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "generate" -d 'Write man pages and shell completions'
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l seed -d 'Seed of the tree\'s names, sizes and contents' -r
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l scratch -d 'Where to put the scratch directories [default: the system\'s temporary directory]' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l json -d 'One JSON object per row instead of a table'
complete -c gannet -n "__fish_gannet_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l volume -d 'Export this striped volume as `/` in place of a directory: its manager and its I/O servers run in this process, unless --role says which do. Its NFS is off unless --nfs-tcp or --nfs-rdma is given' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l nfs-tcp -d 'Listen here for NFS over TCP: ADDRESS:PORT or `off`; port 0 picks a free one, and the address `[::]` takes IPv4 and IPv6 [default: 127.0.0.1:2049; with --allow 0.0.0.0:2049, or [::]:2049 if it names IPv6; off with --volume]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l nfs-rdma -d 'Listen here for NFS over RDMA, as above; it is iWARP, and so a TCP port to firewalls [default: as above, with port 20049]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l allow -d 'Serve NFS to clients at these addresses or networks (repeat, or separate by commas), in place of the `clients` of the configuration; 0.0.0.0/0 and ::/0 are everybody [default: this machine alone]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l config -d 'Read exports, addresses and settings from this file; gannet-serve(1) shows all it may say' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l ready-file -d 'Write the ready line to this file too, once clients can connect' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l native -d 'Listen here for the native protocol of the volume, by which gannet:// URLs reach it; `off` for this host alone. The manager listens here, and I/O servers at the same address on ports of their own [default: 0.0.0.0:20050]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l role -d 'Run only this server of the volume in this process: `manager`, or `io-server=N` (repeat). NFS is served where the manager runs [default: all]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l lost-disk -d 'The disk of this I/O server is lost for good: serve its empty folder, once (repeat). What files had there cannot be read from then on. Without this an empty folder is refused where the server was served before' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l manager -d 'Where I/O servers that run without the manager find it [default: what volume.toml says]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l dscp -d 'Mark what the volume\'s servers send with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N where the manager is at either end, data=N from I/O servers to clients [default: what volume.toml says, or 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l cores -d 'How many threads serve [default: one per core of this machine]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l crc -d 'Insist on CRCs on RDMA connections; off uses them when the client asks [default: off]' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l state-dir -d 'Where to keep the key that signs file handles; without it they are stale after a restart [default: see gannet-serve(1)]' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l engine -d 'How files leave on RDMA connections: static (copied to memory that stays registered), dynamic (read to memory that is registered for one use), or sendfile (taken from the page cache); for comparison [default: static for short READs, sendfile for others]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l read-only -d 'Refuse everything that changes files'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l no-root-squash -d 'Let root of a client be root here; without it, root becomes the anonymous user'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l secure -d 'Serve NFS to connections from ports below 1024 alone, which take root on the client. RDMA clients of Linux have others'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l manage-gids -d 'Look the groups of callers up here, in place of those that their calls carry, which are sixteen at most. A user that is not known here has none but that of the call'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l force-term -d 'Serve the volume\'s metadata though I/O servers know of newer ones, and do not wait for I/O servers that are gone for good. For a backup that was put back: what was done since it was made is given up'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l async-metadata -d 'Answer creates, removes, renames and attribute changes before they are durable: faster, but a crash of the machine loses the last seconds of them'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l sync-metadata -d 'The default now; refused with a word on that'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l cache-age -d 'For how long names and attributes are believed without asking again' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l locks -d 'Where file locks (flock, fcntl) hold; by default shared on volumes, and local over NFS' -r -f -a "shared\t'Among all mounts, by the manager of a volume'
local\t'Among the programs of this machine alone'
none\t'Nowhere: programs that ask for one are told ENOLCK'"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l ready-file -d 'Write the line that it is mounted to this file too' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l direct -d 'Keep no data in the kernel\'s cache: every read and write is the server\'s'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l read-only -d 'Refuse everything that changes files'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l allow-other -d 'Let other users in, each with his own rights; not root, /etc/fuse.conf must say user_allow_other'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "create" -d 'Make a volume in a folder'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "show" -d 'Show a volume\'s servers, stripes, identity and space'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "list" -d 'List volumes: those named, and those in folders that are named'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "extend" -d 'Add I/O servers to a volume that nobody serves'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "check" -d 'Check a volume: names, attributes and objects against each other'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "stripes" -d 'Show how a file is striped, or new files of a directory will be; set the latter; make a file striped so'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key" -f -a "key" -d 'Make a new client key for a volume'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l io-servers -d 'How many I/O servers the volume has, in folders of its own below PATH' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l io-server -d 'An I/O server in this folder, on a disk of its own for instance (repeat); one that does not exist, or is empty' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l stripe-unit -d 'Bytes of a file that go to one I/O server before the next one\'s turn' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l stripe-width -d 'I/O servers that a file is striped over [default: all]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l json -d 'One JSON object'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l json -d 'One JSON object per volume'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l io-servers -d 'So many more, in folders of its own below PATH' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l io-server -d 'One more in this folder (repeat); one that does not exist, or is empty' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l repair -d 'Remove objects that belong to no file; by URL for root and the volume\'s owner'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l lost -d 'Only list the files that have lost bytes with the disk of an I/O server; exits with 1 if there are any'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l unit -d 'Bytes of a new file that go to one I/O server before the next one\'s turn' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l width -l count -d 'I/O servers that a new file is striped over; 0 for all' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l first -d 'The I/O server with the first stripe of each new file; without it they take turns' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l servers -d 'The I/O servers of a new file themselves, by their numbers, in the order of its stripes: 3,0,2' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l default -d 'Leave it to the volume again'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l json -d 'One JSON object'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s l -l long -d 'Kind, mode, links, owner, size and time of each'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s a -l all -d 'Names that start with a dot too'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s R -l recursive -d 'Directories below too'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l json -d 'One JSON object per entry'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l json -d 'One JSON object per file'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s j -l jobs -d 'Files under way at a time, and parts of one file' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s r -s R -l recursive -d 'Directories with everything in them'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l verify -d 'Read everything back and compare every byte with the source'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s q -l quiet -d 'No progress on a terminal, and no line at the end'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -s p -l parents -d 'Make what is missing above too, and do not mind what exists'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s j -l jobs -d 'Names that are removed at a time, with -r' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s r -s R -l recursive -d 'Directories with everything in them'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s f -l force -d 'Do not mind what does not exist'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s q -l quiet -d 'With -r: no progress on a terminal, and no line at the end'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand mv" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand df" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand df" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l json -d 'One JSON object per file system'
complete -c gannet -n "__fish_gannet_using_subcommand df" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand df" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l threads -d 'Concurrent streams, one connection each; several numbers make several rows' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l in-flight -d 'Operations in flight on each stream' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l record -d 'Bytes per operation, at most 1M, on a volume 64M; several sizes make several rows' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l size -d 'Bytes of the file that is read or written; for stat, every 64 KiB stand for one file' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l op -d 'What to measure; several make several rows' -r -f -a "read\t'Sequential READ'
write\t'Sequential WRITE, unstable, with one COMMIT at the end'
randread\t'READ at random offsets'
stat\t'GETATTR'
create\t'CREATE of empty files'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l seconds -d 'Time per row' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l inline-max -d 'gannet://: a server\'s share of an operation travels in the message up to this length [default: 4K, the most]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l fast-max -d 'gannet://: longer ones up to this length through buffers that both sides keep registered [default: 64K, the most]; the server moves what is longer' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l json -d 'One JSON object per row'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -l client-based -d 'gannet://: the client moves what is longer, up to 1M, to and from memory that the server lends it'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile" -a "tile" -d 'Measure ranks that read or write tiles of one file of a volume: rows between each other\'s, and rows apart'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l op -d 'What the ranks do with their tiles; both make several rows' -r -f -a "read\t'Read them'
write\t'Write them, not durably'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l how -d 'How a tile is asked for; several make several rows' -r -f -a "rows\t'A request for each row, one after the other'
lists\t'Requests with lists of 128 rows'
nested\t'One request for all: a row that repeats'
sieve\t'Data sieving: all from the first row to the last, in parts; a write locks, reads, patches and writes back'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l hints -d 'Whether one registration serves all rows, as allocation hints make it; both make several rows' -r -f -a "on\t'The rows are parts of one allocation, which is registered once'
off\t'Nothing: each row is registered for itself'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l sieve-buffer -d 'Bytes that data sieving moves at a time, as ROMIO\'s hint ind_rd_buffer_size' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l ranks -d 'Ranks that work at the same time' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l rows -d 'Rows of a tile' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l row -d 'Bytes of a row' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l seconds -d 'Time per layout and round' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l rounds -d 'Rounds, of which the median counts' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l json -d 'One JSON object per row'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l timeout -d 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l crc -d 'Ask for MPA CRCs on RDMA connections; the server may insist on its own' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l registration -d 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l design -d 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l volume-key -d 'The key of the volume that gannet:// URLs name: its `client-key`' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l dscp -d 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l optimistic -d 'gannet://: read out of the servers\' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l read-cache -d 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l json -d 'One JSON object per check'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l trust-peer -d 'Trust the other side with one key to all transfer memory, as all-physical registration does'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand dump" -s v -l verbose -d 'Every segment on a line of its own, lists in full, packets that are not decoded too'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l json -d 'One JSON object per line, the counts in the last'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -f -a "man" -d 'One page per command'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -f -a "completions" -d 'One script, on standard output'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all" -f -a "all" -d 'Man pages and completions for all shells, in `man` and `completions` below a directory'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l log -d 'How much to log on standard error [default: info for serve and cp, warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l log-format -d 'Log lines for people or for machines' -r -f -a "text\t'People'
json\t'Machines: one JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l busy-poll -d 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l check -d 'Only compare with what is there'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
