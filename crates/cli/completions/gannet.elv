
use builtin;
use str;

set edit:completion:arg-completer[gannet] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'gannet'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'gannet'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand demo 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
            cand serve 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
            cand mount 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT'
            cand volume 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them'
            cand ls 'List directories'
            cand cat 'Write files to standard output'
            cand stat 'Show the attributes of files'
            cand cp 'Copy files and trees to, from and between servers'
            cand mkdir 'Make directories'
            cand rm 'Remove files and directories'
            cand mv 'Move or rename files on one server'
            cand df 'Show space and inodes'
            cand bench 'Measure a server, or ranks that share a file of a volume (bench tile)'
            cand doctor 'Diagnose this host or a server, and say how to fix problems'
            cand dump 'Decode a packet capture of NFS over iWARP or TCP, a line for each message'
            cand version 'Print the version'
            cand generate 'Write man pages and shell completions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;demo'= {
            cand --seed 'Generate the names, sizes and contents of the tree from this seed'
            cand --scratch 'Make the scratch directory in DIR [default: the system''s temporary directory]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per row'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;serve'= {
            cand --volume 'Export this striped volume as `/` in place of a directory'
            cand --nfs-tcp 'Listen for NFS over TCP at ADDRESS:PORT, or `off` [default: 127.0.0.1:2049]'
            cand --nfs-rdma 'Listen for NFS over RDMA at ADDRESS:PORT, or `off` [default: as --nfs-tcp, with port 20049]'
            cand --allow 'Serve NFS to clients at these addresses or networks (repeat, or separate by commas) [default: this host alone]'
            cand --config 'Read exports, addresses and settings from this file; gannet-serve(1) lists its keys'
            cand --ready-file 'Write the ready line to this file too'
            cand --native 'Listen for gannet:// URLs at ADDRESS:PORT, or `off` for this host alone [default: 0.0.0.0:20050]'
            cand --role 'Run only this server of the volume: `manager` or `io-server=N` (repeat) [default: all]'
            cand --lost-disk 'Serve I/O server N from an empty folder, once, because its disk is lost for good (repeat)'
            cand --manager 'The address of the manager, for I/O servers that run without it [default: that of volume.toml]'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63) [default: those of volume.toml, or 0]'
            cand --cores 'Serve with N threads [default: one for each core]'
            cand --crc 'Require CRCs on RDMA connections; off uses them when the client asks for them [default: off]'
            cand --state-dir 'Keep the key that signs file handles here, so that handles survive a restart [default: see gannet-serve(1)]'
            cand --engine 'Send READ data by this engine: static, dynamic or sendfile [default: static if short, sendfile if long]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --read-only 'Refuse every change'
            cand --no-root-squash 'Keep root of a client root here, in place of the anonymous user (65534)'
            cand --secure 'Serve NFS only to connections from ports below 1024, which only root can open on a client'
            cand --manage-gids 'Take the groups of callers from this host''s user database, and not from calls, which carry at most 16'
            cand --force-term 'Serve metadata from a backup, although I/O servers have seen newer metadata'
            cand --async-metadata 'Reply to creates, removes, renames and attribute changes before they are durable'
            cand --sync-metadata 'A former option, which is refused with an explanation'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;mount'= {
            cand --cache-age 'Cache names and attributes for this long'
            cand --locks 'Where file locks (flock, fcntl) hold [default: shared on volumes, local over NFS]'
            cand --ready-file 'Write the line `mounted URL at DIR` to this file too'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --direct 'Bypass the kernel''s page cache: send every read and write to the server'
            cand --read-only 'Refuse every change'
            cand --allow-other 'Allow other users, each with their own rights; unless root mounts, /etc/fuse.conf must have user_allow_other'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand create 'Make a volume in a folder'
            cand show 'Show a volume''s servers, stripes, identity and space'
            cand list 'List volumes, and the volumes in folders'
            cand extend 'Add I/O servers to a volume that is not being served'
            cand check 'Check that the names, attributes and objects of a volume agree'
            cand stripes 'Show or set how files are striped'
            cand key 'Make a new client key for a volume'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;volume;create'= {
            cand --io-servers 'Make N I/O servers, in folders below PATH'
            cand --io-server 'Make an I/O server in this folder, which must be empty or not exist (repeat); a disk for each is usual'
            cand --stripe-unit 'Write SIZE bytes of a file to one I/O server before the next'
            cand --stripe-width 'Stripe each file over N I/O servers [default: all]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;show'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;list'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per volume'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;extend'= {
            cand --io-servers 'Add N I/O servers, in folders below PATH'
            cand --io-server 'Add an I/O server in this folder, which must be empty or not exist (repeat)'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;check'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --repair 'Remove objects that belong to no file; with a URL, only root and the volume''s owner may'
            cand --lost 'Only list the files that lost bytes with the disk of an I/O server; the exit status is 1 if there are any'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;stripes'= {
            cand --unit 'Write SIZE bytes of a new file to one I/O server before the next'
            cand --width 'Stripe each new file over N I/O servers; 0 is all'
            cand --count 'Stripe each new file over N I/O servers; 0 is all'
            cand --first 'Begin each new file on I/O server N [default: each in turn]'
            cand --servers 'Stripe new files over these I/O servers, in this order: 3,0,2'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --default 'Use the volume''s stripes again for new files of the directory'
            cand --json 'Print one JSON object'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;key'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;volume;help'= {
            cand create 'Make a volume in a folder'
            cand show 'Show a volume''s servers, stripes, identity and space'
            cand list 'List volumes, and the volumes in folders'
            cand extend 'Add I/O servers to a volume that is not being served'
            cand check 'Check that the names, attributes and objects of a volume agree'
            cand stripes 'Show or set how files are striped'
            cand key 'Make a new client key for a volume'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;volume;help;create'= {
        }
        &'gannet;volume;help;show'= {
        }
        &'gannet;volume;help;list'= {
        }
        &'gannet;volume;help;extend'= {
        }
        &'gannet;volume;help;check'= {
        }
        &'gannet;volume;help;stripes'= {
        }
        &'gannet;volume;help;key'= {
        }
        &'gannet;volume;help;help'= {
        }
        &'gannet;ls'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -l 'Show type, mode, links, owner, group, size and time of modification (UTC)'
            cand --long 'Show type, mode, links, owner, group, size and time of modification (UTC)'
            cand -n 'As -l, with the numbers of owners and groups'
            cand --numeric-ids 'As -l, with the numbers of owners and groups'
            cand -h 'With -l, show sizes in KiB, MiB and so on'
            cand --human-readable 'With -l, show sizes in KiB, MiB and so on'
            cand -t 'Sort by time of modification, newest first'
            cand --sort-by-time 'Sort by time of modification, newest first'
            cand -S 'Sort by size, largest first'
            cand --sort-by-size 'Sort by size, largest first'
            cand -r 'Reverse the order'
            cand --reverse 'Reverse the order'
            cand -a 'Include names that start with a dot'
            cand --all 'Include names that start with a dot'
            cand -R 'List directories recursively'
            cand --recursive 'List directories recursively'
            cand --json 'Print one JSON object per entry'
            cand --help 'Print help'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
        }
        &'gannet;cat'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;stat'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per file'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;cp'= {
            cand -j 'Copy N files at a time, and N blocks of each'
            cand --jobs 'Copy N files at a time, and N blocks of each'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -r 'Copy directories with everything in them'
            cand -R 'Copy directories with everything in them'
            cand --recursive 'Copy directories with everything in them'
            cand --verify 'Read each copy back and compare every byte with the source'
            cand -q 'Print no progress and no summary'
            cand --quiet 'Print no progress and no summary'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;mkdir'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -p 'Make missing parent directories, and accept directories that exist'
            cand --parents 'Make missing parent directories, and accept directories that exist'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;rm'= {
            cand -j 'With -r, remove N names at a time'
            cand --jobs 'With -r, remove N names at a time'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -r 'Remove directories with everything in them'
            cand -R 'Remove directories with everything in them'
            cand --recursive 'Remove directories with everything in them'
            cand -f 'Ignore names that do not exist'
            cand --force 'Ignore names that do not exist'
            cand -q 'With -r, print no progress and no summary'
            cand --quiet 'With -r, print no progress and no summary'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;mv'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;df'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per file system'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;bench'= {
            cand --threads 'Run N streams, each with a connection and a thread; each value makes a row'
            cand --in-flight 'Keep N operations in flight on each stream'
            cand --record 'Move SIZE bytes with each operation, at most 1M, on a volume 64M; each value makes a row'
            cand --size 'Read or write a file of SIZE bytes; stat uses a file for each 64 KiB of it'
            cand --op 'Measure this operation; each value makes a row'
            cand --seconds 'Measure each row for this long'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --inline-max 'Send up to SIZE bytes for one I/O server within the message [default: 4K, the maximum]'
            cand --fast-max 'Send up to SIZE bytes through eager buffers, which stay registered [default: 64K, the maximum]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per row'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand --client-based 'Let the client move longer data, up to 1M, to and from a client-driven buffer of the server'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand tile 'Measure ranks that read or write tiles of one shared file of a volume'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;bench;tile'= {
            cand --op 'Read or write tiles; each value makes a row'
            cand --how 'Request a tile this way; each value makes a row'
            cand --hints 'Register the rows of a tile at once (on) or each by itself (off); each value makes a row'
            cand --sieve-buffer 'Move SIZE bytes at a time by data sieving, as ROMIO''s hint ind_rd_buffer_size'
            cand --ranks 'Run N ranks at the same time'
            cand --rows 'Give each tile N rows'
            cand --row 'Give each row SIZE bytes'
            cand --seconds 'Measure each layout for this long in each round'
            cand --rounds 'Measure N rounds, and report their median'
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per row'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;bench;help'= {
            cand tile 'Measure ranks that read or write tiles of one shared file of a volume'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;bench;help;tile'= {
        }
        &'gannet;bench;help;help'= {
        }
        &'gannet;doctor'= {
            cand --timeout 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]'
            cand --crc 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --design 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)'
            cand --volume-key 'Prove access with this key: the file `client-key` of the volume'
            cand --dscp 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]'
            cand --optimistic 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]'
            cand --read-cache 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]'
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --json 'Print one JSON object per check'
            cand --trust-peer 'Give the peer one key to all transfer memory, as all-physical registration requires'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;dump'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -v 'Print each segment on a line of its own, whole lists, and packets that are not decoded'
            cand --verbose 'Print each segment on a line of its own, whole lists, and packets that are not decoded'
            cand --json 'Print one JSON object per message; the last has the counts'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;version'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand man 'Write a man page for each command'
            cand completions 'Print the completion script of a shell'
            cand all 'Write man pages and completions for all shells to `man` and `completions` below a directory'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;generate;man'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate;completions'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate;all'= {
            cand --log 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]'
            cand --log-format 'Write log lines in this format'
            cand --busy-poll 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]'
            cand --check 'Compare with the files that are there, and write nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate;help'= {
            cand man 'Write a man page for each command'
            cand completions 'Print the completion script of a shell'
            cand all 'Write man pages and completions for all shells to `man` and `completions` below a directory'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;generate;help;man'= {
        }
        &'gannet;generate;help;completions'= {
        }
        &'gannet;generate;help;all'= {
        }
        &'gannet;generate;help;help'= {
        }
        &'gannet;help'= {
            cand demo 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
            cand serve 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
            cand mount 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT'
            cand volume 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them'
            cand ls 'List directories'
            cand cat 'Write files to standard output'
            cand stat 'Show the attributes of files'
            cand cp 'Copy files and trees to, from and between servers'
            cand mkdir 'Make directories'
            cand rm 'Remove files and directories'
            cand mv 'Move or rename files on one server'
            cand df 'Show space and inodes'
            cand bench 'Measure a server, or ranks that share a file of a volume (bench tile)'
            cand doctor 'Diagnose this host or a server, and say how to fix problems'
            cand dump 'Decode a packet capture of NFS over iWARP or TCP, a line for each message'
            cand version 'Print the version'
            cand generate 'Write man pages and shell completions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'gannet;help;demo'= {
        }
        &'gannet;help;serve'= {
        }
        &'gannet;help;mount'= {
        }
        &'gannet;help;volume'= {
            cand create 'Make a volume in a folder'
            cand show 'Show a volume''s servers, stripes, identity and space'
            cand list 'List volumes, and the volumes in folders'
            cand extend 'Add I/O servers to a volume that is not being served'
            cand check 'Check that the names, attributes and objects of a volume agree'
            cand stripes 'Show or set how files are striped'
            cand key 'Make a new client key for a volume'
        }
        &'gannet;help;volume;create'= {
        }
        &'gannet;help;volume;show'= {
        }
        &'gannet;help;volume;list'= {
        }
        &'gannet;help;volume;extend'= {
        }
        &'gannet;help;volume;check'= {
        }
        &'gannet;help;volume;stripes'= {
        }
        &'gannet;help;volume;key'= {
        }
        &'gannet;help;ls'= {
        }
        &'gannet;help;cat'= {
        }
        &'gannet;help;stat'= {
        }
        &'gannet;help;cp'= {
        }
        &'gannet;help;mkdir'= {
        }
        &'gannet;help;rm'= {
        }
        &'gannet;help;mv'= {
        }
        &'gannet;help;df'= {
        }
        &'gannet;help;bench'= {
            cand tile 'Measure ranks that read or write tiles of one shared file of a volume'
        }
        &'gannet;help;bench;tile'= {
        }
        &'gannet;help;doctor'= {
        }
        &'gannet;help;dump'= {
        }
        &'gannet;help;version'= {
        }
        &'gannet;help;generate'= {
            cand man 'Write a man page for each command'
            cand completions 'Print the completion script of a shell'
            cand all 'Write man pages and completions for all shells to `man` and `completions` below a directory'
        }
        &'gannet;help;generate;man'= {
        }
        &'gannet;help;generate;completions'= {
        }
        &'gannet;help;generate;all'= {
        }
        &'gannet;help;help'= {
        }
    ]
    $completions[$command]
}
