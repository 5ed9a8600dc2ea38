
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
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand demo 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte'
            cand serve 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT'
            cand ls 'List directories'
            cand cat 'Write files to standard output'
            cand stat 'Show attributes of files'
            cand cp 'Copy files and trees to, from and between servers'
            cand mkdir 'Make directories'
            cand rm 'Remove files and directories'
            cand mv 'Move or rename on one server'
            cand df 'Show space and inodes'
            cand bench 'Measure a server, or the fabric itself (bench fabric)'
            cand doctor 'Say what of this machine, or of a server, stands in the way, and what to do about it'
            cand dump 'Show what a capture of NFS over iWARP or TCP holds, a line a message'
            cand generate 'Write man pages and shell completions'
        }
        &'gannet;demo'= {
            cand --seed 'Seed of the tree''s names, sizes and contents'
            cand --scratch 'Where to put the scratch directories [default: the system''s temporary directory]'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per row instead of a table'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;serve'= {
            cand --nfs-tcp 'Listen here for NFS over TCP: ADDRESS:PORT or `off`; port 0 picks a free one, and the address `[::]` takes IPv4 and IPv6 [default: 0.0.0.0:2049]'
            cand --nfs-rdma 'Listen here for NFS over RDMA, as above; it is iWARP, and so a TCP port to firewalls [default: 0.0.0.0:20049]'
            cand --allow 'Serve only clients at these addresses or networks (repeat, or separate by commas), whatever the configuration says [default: everybody]'
            cand --config 'Read exports, addresses and settings from this file; gannet-serve(1) shows all it may say'
            cand --ready-file 'Write the ready line to this file too, once clients can connect'
            cand --cores 'How many threads serve [default: one per core of this machine]'
            cand --crc 'Insist on CRCs on RDMA connections; off uses them when the client asks [default: off]'
            cand --state-dir 'Where to keep the key that signs file handles; without it they are stale after a restart [default: see gannet-serve(1)]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --read-only 'Refuse everything that changes files'
            cand --no-root-squash 'Let root of a client be root here; without it, root becomes the anonymous user'
            cand --sync-metadata 'Make creates, removes and renames durable before answering, as the protocol asks, at a cost in speed'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;ls'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -l 'Kind, mode, links, owner, size and time of each'
            cand --long 'Kind, mode, links, owner, size and time of each'
            cand -a 'Names that start with a dot too'
            cand --all 'Names that start with a dot too'
            cand -R 'Directories below too'
            cand --recursive 'Directories below too'
            cand --json 'One JSON object per entry'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;cat'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;stat'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per file'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;cp'= {
            cand -j 'Files under way at a time, and parts of one file'
            cand --jobs 'Files under way at a time, and parts of one file'
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -r 'Directories with everything in them'
            cand -R 'Directories with everything in them'
            cand --recursive 'Directories with everything in them'
            cand --verify 'Read everything back and compare every byte with the source'
            cand -q 'No progress bar, not even on a terminal'
            cand --quiet 'No progress bar, not even on a terminal'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;mkdir'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -p 'Make what is missing above too, and do not mind what exists'
            cand --parents 'Make what is missing above too, and do not mind what exists'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;rm'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -r 'Directories with everything in them'
            cand -R 'Directories with everything in them'
            cand --recursive 'Directories with everything in them'
            cand -f 'Do not mind what does not exist'
            cand --force 'Do not mind what does not exist'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;mv'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;df'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per file system'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;bench'= {
            cand --threads 'Concurrent streams, one connection each; several numbers make several rows'
            cand --record 'Bytes per operation; several sizes make several rows'
            cand --size 'Bytes of the file that is read or written; for stat, every 64 KiB stand for one file'
            cand --op 'What to measure; several make several rows'
            cand --seconds 'Time per row'
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per row'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand fabric 'Measure the software RNIC next to a plain TCP socket, on loopback'
        }
        &'gannet;bench;fabric'= {
            cand --seconds 'Time per row'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per row'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;doctor'= {
            cand --timeout 'Give up when the server has not answered for so many seconds [default: 30; cp waits for ever]'
            cand --crc 'Ask for MPA CRCs on RDMA connections; the server may insist on its own'
            cand --uid 'Call as this user [default: the caller''s own]'
            cand --gid 'Call as this group [default: the caller''s own]'
            cand --registration 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical'
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --json 'One JSON object per check'
            cand --trust-peer 'Trust the other side with one key to all transfer memory, as all-physical registration does'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;dump'= {
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -v 'Every segment on a line of its own, lists in full, packets that are not decoded too'
            cand --verbose 'Every segment on a line of its own, lists in full, packets that are not decoded too'
            cand --json 'One JSON object per line, the counts in the last'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate'= {
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand man 'One page per command'
            cand completions 'One script, on standard output'
            cand all 'Man pages and completions for all shells, in `man` and `completions` below a directory'
        }
        &'gannet;generate;man'= {
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate;completions'= {
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'gannet;generate;all'= {
            cand --log 'How much to log on standard error [default: info for serve and cp, warn otherwise]'
            cand --log-format 'Log lines for people or for machines'
            cand --check 'Only compare with what is there'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
    ]
    $completions[$command]
}
