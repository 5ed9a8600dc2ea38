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

complete -c gannet -n "__fish_gannet_needs_command" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_needs_command" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_needs_command" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_needs_command" -s V -l version -d 'Print version'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "demo" -d 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "serve" -d 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mount" -d 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "volume" -d 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "ls" -d 'List directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "cat" -d 'Write files to standard output'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "stat" -d 'Show the attributes of files'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "cp" -d 'Copy files and trees to, from and between servers'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mkdir" -d 'Make directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "rm" -d 'Remove files and directories'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "mv" -d 'Move or rename files on one server'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "df" -d 'Show space and inodes'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "bench" -d 'Measure a server, or ranks that share a file of a volume (bench tile)'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "doctor" -d 'Diagnose this host or a server, and say how to fix problems'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "dump" -d 'Decode a packet capture of NFS over iWARP or TCP, a line for each message'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "version" -d 'Print the version'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "generate" -d 'Write man pages and shell completions'
complete -c gannet -n "__fish_gannet_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l seed -d 'Generate the names, sizes and contents of the tree from this seed' -r
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l scratch -d 'Make the scratch directory in DIR [default: the system\'s temporary directory]' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand demo" -l json -d 'Print one JSON object per row'
complete -c gannet -n "__fish_gannet_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l volume -d 'Export this striped volume as `/` in place of a directory' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l nfs-tcp -d 'Listen for NFS over TCP at ADDRESS:PORT, or `off` [default: 127.0.0.1:2049]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l nfs-rdma -d 'Listen for NFS over RDMA at ADDRESS:PORT, or `off` [default: as --nfs-tcp, with port 20049]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l allow -d 'Serve NFS to clients at these addresses or networks (repeat, or separate by commas) [default: this host alone]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l config -d 'Read exports, addresses and settings from this file; gannet-serve(1) lists its keys' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l ready-file -d 'Write the ready line to this file too' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l native -d 'Listen for gannet:// URLs at ADDRESS:PORT, or `off` for this host alone [default: 0.0.0.0:20050]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l role -d 'Run only this server of the volume: `manager` or `io-server=N` (repeat) [default: all]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l lost-disk -d 'Serve I/O server N from an empty folder, once, because its disk is lost for good (repeat)' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l manager -d 'The address of the manager, for I/O servers that run without it [default: that of volume.toml]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63) [default: those of volume.toml, or 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l cores -d 'Serve with N threads [default: one for each core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l crc -d 'Require CRCs on RDMA connections; off uses them when the client asks for them [default: off]' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l state-dir -d 'Keep the key that signs file handles here, so that handles survive a restart [default: see gannet-serve(1)]' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l engine -d 'Send READ data by this engine: static, dynamic or sendfile [default: static if short, sendfile if long]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l read-only -d 'Refuse every change'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l no-root-squash -d 'Keep root of a client root here, in place of the anonymous user (65534)'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l secure -d 'Serve NFS only to connections from ports below 1024, which only root can open on a client'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l manage-gids -d 'Take the groups of callers from this host\'s user database, and not from calls, which carry at most 16'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l force-term -d 'Serve metadata from a backup, although I/O servers have seen newer metadata'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l async-metadata -d 'Reply to creates, removes, renames and attribute changes before they are durable'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l sync-metadata -d 'A former option, which is refused with an explanation'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l cache-age -d 'Cache names and attributes for this long' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l locks -d 'Where file locks (flock, fcntl) hold [default: shared on volumes, local over NFS]' -r -f -a "shared\t'Among all mounts, by the manager of a volume'
local\t'Among the programs of this host alone'
none\t'Nowhere: calls for a lock fail with ENOLCK'"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l ready-file -d 'Write the line `mounted URL at DIR` to this file too' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l direct -d 'Bypass the kernel\'s page cache: send every read and write to the server'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l read-only -d 'Refuse every change'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l allow-other -d 'Allow other users, each with their own rights; unless root mounts, /etc/fuse.conf must have user_allow_other'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "create" -d 'Make a volume in a folder'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "show" -d 'Show a volume\'s servers, stripes, identity and space'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "list" -d 'List volumes, and the volumes in folders'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "extend" -d 'Add I/O servers to a volume that is not being served'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "check" -d 'Check that the names, attributes and objects of a volume agree'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "stripes" -d 'Show or set how files are striped'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "key" -d 'Make a new client key for a volume'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and not __fish_seen_subcommand_from create show list extend check stripes key help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l io-servers -d 'Make N I/O servers, in folders below PATH' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l io-server -d 'Make an I/O server in this folder, which must be empty or not exist (repeat); a disk for each is usual' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l stripe-unit -d 'Write SIZE bytes of a file to one I/O server before the next' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l stripe-width -d 'Stripe each file over N I/O servers [default: all]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON object'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON object per volume'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l io-servers -d 'Add N I/O servers, in folders below PATH' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l io-server -d 'Add an I/O server in this folder, which must be empty or not exist (repeat)' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l repair -d 'Remove objects that belong to no file; with a URL, only root and the volume\'s owner may'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l lost -d 'Only list the files that lost bytes with the disk of an I/O server; the exit status is 1 if there are any'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l unit -d 'Write SIZE bytes of a new file to one I/O server before the next' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l width -l count -d 'Stripe each new file over N I/O servers; 0 is all' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l first -d 'Begin each new file on I/O server N [default: each in turn]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l servers -d 'Stripe new files over these I/O servers, in this order: 3,0,2' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l default -d 'Use the volume\'s stripes again for new files of the directory'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l json -d 'Print one JSON object'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from stripes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a volume in a folder'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a volume\'s servers, stripes, identity and space'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "list" -d 'List volumes, and the volumes in folders'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "extend" -d 'Add I/O servers to a volume that is not being served'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check that the names, attributes and objects of a volume agree'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "stripes" -d 'Show or set how files are striped'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "key" -d 'Make a new client key for a volume'
complete -c gannet -n "__fish_gannet_using_subcommand volume; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s l -l long -d 'Show type, mode, links, owner, group, size and time of modification (UTC)'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s n -l numeric-ids -d 'As -l, with the numbers of owners and groups'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s h -l human-readable -d 'With -l, show sizes in KiB, MiB and so on'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s t -l sort-by-time -d 'Sort by time of modification, newest first'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s S -l sort-by-size -d 'Sort by size, largest first'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s r -l reverse -d 'Reverse the order'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s a -l all -d 'Include names that start with a dot'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -s R -l recursive -d 'List directories recursively'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l json -d 'Print one JSON object per entry'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l help -d 'Print help'
complete -c gannet -n "__fish_gannet_using_subcommand ls" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cat" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l json -d 'Print one JSON object per file'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s j -l jobs -d 'Copy N files at a time, and N blocks of each' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s r -s R -l recursive -d 'Copy directories with everything in them'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l verify -d 'Read each copy back and compare every byte with the source'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s q -l quiet -d 'Print no progress and no summary'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -s p -l parents -d 'Make missing parent directories, and accept directories that exist'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand mkdir" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s j -l jobs -d 'With -r, remove N names at a time' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s r -s R -l recursive -d 'Remove directories with everything in them'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s f -l force -d 'Ignore names that do not exist'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s q -l quiet -d 'With -r, print no progress and no summary'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand mv" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand mv" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand df" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand df" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand df" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand df" -l json -d 'Print one JSON object per file system'
complete -c gannet -n "__fish_gannet_using_subcommand df" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand df" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l threads -d 'Run N streams, each with a connection and a thread; each value makes a row' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l in-flight -d 'Keep N operations in flight on each stream' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l record -d 'Move SIZE bytes with each operation, at most 1M, on a volume 64M; each value makes a row' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l size -d 'Read or write a file of SIZE bytes; stat uses a file for each 64 KiB of it' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l op -d 'Measure this operation; each value makes a row' -r -f -a "read\t'Sequential READ'
write\t'Sequential unstable WRITE, with one COMMIT at the end'
randread\t'READ at random offsets'
stat\t'GETATTR'
create\t'CREATE of empty files'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l seconds -d 'Measure each row for this long' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l inline-max -d 'Send up to SIZE bytes for one I/O server within the message [default: 4K, the maximum]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l fast-max -d 'Send up to SIZE bytes through eager buffers, which stay registered [default: 64K, the maximum]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l json -d 'Print one JSON object per row'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -l client-based -d 'Let the client move longer data, up to 1M, to and from a client-driven buffer of the server'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -a "tile" -d 'Measure ranks that read or write tiles of one shared file of a volume'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and not __fish_seen_subcommand_from tile help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l op -d 'Read or write tiles; each value makes a row' -r -f -a "read\t'Read tiles'
write\t'Write tiles, without COMMIT'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l how -d 'Request a tile this way; each value makes a row' -r -f -a "rows\t'A request for each row, one after the other'
lists\t'Requests with lists of 128 rows'
nested\t'One request for all rows, as a repeated pattern'
sieve\t'Data sieving: whole parts of the file; a write locks, reads, patches and writes back'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l hints -d 'Register the rows of a tile at once (on) or each by itself (off); each value makes a row' -r -f -a "on\t'The rows are parts of one allocation, which is registered once'
off\t'Each row is registered by itself'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l sieve-buffer -d 'Move SIZE bytes at a time by data sieving, as ROMIO\'s hint ind_rd_buffer_size' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l ranks -d 'Run N ranks at the same time' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l rows -d 'Give each tile N rows' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l row -d 'Give each row SIZE bytes' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l seconds -d 'Measure each layout for this long in each round' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l rounds -d 'Measure N rounds, and report their median' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l json -d 'Print one JSON object per row'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from tile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "tile" -d 'Measure ranks that read or write tiles of one shared file of a volume'
complete -c gannet -n "__fish_gannet_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l timeout -d 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l crc -d 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them' -r -f -a "on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l uid -d 'Call as this user [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l gid -d 'Call as this group [default: the caller\'s own]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l registration -d 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l design -d 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l volume-key -d 'Prove access with this key: the file `client-key` of the volume' -r -F
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l dscp -d 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l optimistic -d 'Read cached blocks from the servers\' memory by RDMA Read, without a request: auto, on or off [default: auto]' -r -f -a "auto\t''
on\t''
off\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l read-cache -d 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l json -d 'Print one JSON object per check'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -l trust-peer -d 'Give the peer one key to all transfer memory, as all-physical registration requires'
complete -c gannet -n "__fish_gannet_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand dump" -s v -l verbose -d 'Print each segment on a line of its own, whole lists, and packets that are not decoded'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -l json -d 'Print one JSON object per message; the last has the counts'
complete -c gannet -n "__fish_gannet_using_subcommand dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand version" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand version" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand version" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -f -a "man" -d 'Write a man page for each command'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -f -a "completions" -d 'Print the completion script of a shell'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -f -a "all" -d 'Write man pages and completions for all shells to `man` and `completions` below a directory'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and not __fish_seen_subcommand_from man completions all help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l log -d 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l log-format -d 'Write log lines in this format' -r -f -a "text\t'Text for people'
json\t'One JSON object per line'"
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l busy-poll -d 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]' -r
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -l check -d 'Compare with the files that are there, and write nothing'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "man" -d 'Write a man page for each command'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "completions" -d 'Print the completion script of a shell'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "all" -d 'Write man pages and completions for all shells to `man` and `completions` below a directory'
complete -c gannet -n "__fish_gannet_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "demo" -d 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "serve" -d 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "mount" -d 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "volume" -d 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "ls" -d 'List directories'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "cat" -d 'Write files to standard output'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "stat" -d 'Show the attributes of files'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "cp" -d 'Copy files and trees to, from and between servers'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "mkdir" -d 'Make directories'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "rm" -d 'Remove files and directories'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "mv" -d 'Move or rename files on one server'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "df" -d 'Show space and inodes'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "bench" -d 'Measure a server, or ranks that share a file of a volume (bench tile)'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "doctor" -d 'Diagnose this host or a server, and say how to fix problems'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "dump" -d 'Decode a packet capture of NFS over iWARP or TCP, a line for each message'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "version" -d 'Print the version'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "generate" -d 'Write man pages and shell completions'
complete -c gannet -n "__fish_gannet_using_subcommand help; and not __fish_seen_subcommand_from demo serve mount volume ls cat stat cp mkdir rm mv df bench doctor dump version generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "create" -d 'Make a volume in a folder'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "show" -d 'Show a volume\'s servers, stripes, identity and space'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "list" -d 'List volumes, and the volumes in folders'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "extend" -d 'Add I/O servers to a volume that is not being served'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "check" -d 'Check that the names, attributes and objects of a volume agree'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "stripes" -d 'Show or set how files are striped'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from volume" -f -a "key" -d 'Make a new client key for a volume'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "tile" -d 'Measure ranks that read or write tiles of one shared file of a volume'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from generate" -f -a "man" -d 'Write a man page for each command'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from generate" -f -a "completions" -d 'Print the completion script of a shell'
complete -c gannet -n "__fish_gannet_using_subcommand help; and __fish_seen_subcommand_from generate" -f -a "all" -d 'Write man pages and completions for all shells to `man` and `completions` below a directory'
