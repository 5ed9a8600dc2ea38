
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'gannet' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'gannet'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'gannet' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT')
            [CompletionResult]::new('mount', 'mount', [CompletionResultType]::ParameterValue, 'Mount what a server exports on a directory, until it is unmounted, SIGTERM or SIGINT')
            [CompletionResult]::new('volume', 'volume', [CompletionResultType]::ParameterValue, 'Make, show, extend and check striped volumes, which `gannet serve --volume` serves')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List directories')
            [CompletionResult]::new('cat', 'cat', [CompletionResultType]::ParameterValue, 'Write files to standard output')
            [CompletionResult]::new('stat', 'stat', [CompletionResultType]::ParameterValue, 'Show attributes of files')
            [CompletionResult]::new('cp', 'cp', [CompletionResultType]::ParameterValue, 'Copy files and trees to, from and between servers')
            [CompletionResult]::new('mkdir', 'mkdir', [CompletionResultType]::ParameterValue, 'Make directories')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove files and directories')
            [CompletionResult]::new('mv', 'mv', [CompletionResultType]::ParameterValue, 'Move or rename on one server')
            [CompletionResult]::new('df', 'df', [CompletionResultType]::ParameterValue, 'Show space and inodes')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure a server, or tiles of a file of a volume (bench tile)')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Say what of this machine, or of a server, stands in the way, and what to do about it')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Show what a capture of NFS over iWARP or TCP holds, a line a message')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write man pages and shell completions')
            break
        }
        'gannet;demo' {
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the tree''s names, sizes and contents')
            [CompletionResult]::new('--scratch', '--scratch', [CompletionResultType]::ParameterName, 'Where to put the scratch directories [default: the system''s temporary directory]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per row instead of a table')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;serve' {
            [CompletionResult]::new('--volume', '--volume', [CompletionResultType]::ParameterName, 'Export this striped volume as `/` in place of a directory: its manager and its I/O servers run in this process, unless --role says which do. Its NFS is off unless --nfs-tcp or --nfs-rdma is given')
            [CompletionResult]::new('--nfs-tcp', '--nfs-tcp', [CompletionResultType]::ParameterName, 'Listen here for NFS over TCP: ADDRESS:PORT or `off`; port 0 picks a free one, and the address `[::]` takes IPv4 and IPv6 [default: 127.0.0.1:2049; with --allow 0.0.0.0:2049, or [::]:2049 if it names IPv6; off with --volume]')
            [CompletionResult]::new('--nfs-rdma', '--nfs-rdma', [CompletionResultType]::ParameterName, 'Listen here for NFS over RDMA, as above; it is iWARP, and so a TCP port to firewalls [default: as above, with port 20049]')
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'Serve NFS to clients at these addresses or networks (repeat, or separate by commas), in place of the `clients` of the configuration; 0.0.0.0/0 and ::/0 are everybody [default: this machine alone]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read exports, addresses and settings from this file; gannet-serve(1) shows all it may say')
            [CompletionResult]::new('--ready-file', '--ready-file', [CompletionResultType]::ParameterName, 'Write the ready line to this file too, once clients can connect')
            [CompletionResult]::new('--native', '--native', [CompletionResultType]::ParameterName, 'Listen here for the native protocol of the volume, by which gannet:// URLs reach it; `off` for this host alone. The manager listens here, and I/O servers at the same address on ports of their own [default: 0.0.0.0:20050]')
            [CompletionResult]::new('--role', '--role', [CompletionResultType]::ParameterName, 'Run only this server of the volume in this process: `manager`, or `io-server=N` (repeat). NFS is served where the manager runs [default: all]')
            [CompletionResult]::new('--lost-disk', '--lost-disk', [CompletionResultType]::ParameterName, 'The disk of this I/O server is lost for good: serve its empty folder, once (repeat). What files had there cannot be read from then on. Without this an empty folder is refused where the server was served before')
            [CompletionResult]::new('--manager', '--manager', [CompletionResultType]::ParameterName, 'Where I/O servers that run without the manager find it [default: what volume.toml says]')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark what the volume''s servers send with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N where the manager is at either end, data=N from I/O servers to clients [default: what volume.toml says, or 0]')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'How many threads serve [default: one per core of this machine]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Insist on CRCs on RDMA connections; off uses them when the client asks [default: off]')
            [CompletionResult]::new('--state-dir', '--state-dir', [CompletionResultType]::ParameterName, 'Where to keep the key that signs file handles; without it they are stale after a restart [default: see gannet-serve(1)]')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'How files leave on RDMA connections: static (copied to memory that stays registered), dynamic (read to memory that is registered for one use), or sendfile (taken from the page cache); for comparison [default: static for short READs, sendfile for others]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--read-only', '--read-only', [CompletionResultType]::ParameterName, 'Refuse everything that changes files')
            [CompletionResult]::new('--no-root-squash', '--no-root-squash', [CompletionResultType]::ParameterName, 'Let root of a client be root here; without it, root becomes the anonymous user')
            [CompletionResult]::new('--secure', '--secure', [CompletionResultType]::ParameterName, 'Serve NFS to connections from ports below 1024 alone, which take root on the client. RDMA clients of Linux have others')
            [CompletionResult]::new('--manage-gids', '--manage-gids', [CompletionResultType]::ParameterName, 'Look the groups of callers up here, in place of those that their calls carry, which are sixteen at most. A user that is not known here has none but that of the call')
            [CompletionResult]::new('--force-term', '--force-term', [CompletionResultType]::ParameterName, 'Serve the volume''s metadata though I/O servers know of newer ones, and do not wait for I/O servers that are gone for good. For a backup that was put back: what was done since it was made is given up')
            [CompletionResult]::new('--async-metadata', '--async-metadata', [CompletionResultType]::ParameterName, 'Answer creates, removes, renames and attribute changes before they are durable: faster, but a crash of the machine loses the last seconds of them')
            [CompletionResult]::new('--sync-metadata', '--sync-metadata', [CompletionResultType]::ParameterName, 'The default now; refused with a word on that')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mount' {
            [CompletionResult]::new('--cache-age', '--cache-age', [CompletionResultType]::ParameterName, 'For how long names and attributes are believed without asking again')
            [CompletionResult]::new('--locks', '--locks', [CompletionResultType]::ParameterName, 'Where file locks (flock, fcntl) hold; by default shared on volumes, and local over NFS')
            [CompletionResult]::new('--ready-file', '--ready-file', [CompletionResultType]::ParameterName, 'Write the line that it is mounted to this file too')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--direct', '--direct', [CompletionResultType]::ParameterName, 'Keep no data in the kernel''s cache: every read and write is the server''s')
            [CompletionResult]::new('--read-only', '--read-only', [CompletionResultType]::ParameterName, 'Refuse everything that changes files')
            [CompletionResult]::new('--allow-other', '--allow-other', [CompletionResultType]::ParameterName, 'Let other users in, each with his own rights; not root, /etc/fuse.conf must say user_allow_other')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a volume in a folder')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a volume''s servers, stripes, identity and space')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List volumes: those named, and those in folders that are named')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Add I/O servers to a volume that nobody serves')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a volume: names, attributes and objects against each other')
            [CompletionResult]::new('stripes', 'stripes', [CompletionResultType]::ParameterValue, 'Show how a file is striped, or new files of a directory will be; set the latter; make a file striped so')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Make a new client key for a volume')
            break
        }
        'gannet;volume;create' {
            [CompletionResult]::new('--io-servers', '--io-servers', [CompletionResultType]::ParameterName, 'How many I/O servers the volume has, in folders of its own below PATH')
            [CompletionResult]::new('--io-server', '--io-server', [CompletionResultType]::ParameterName, 'An I/O server in this folder, on a disk of its own for instance (repeat); one that does not exist, or is empty')
            [CompletionResult]::new('--stripe-unit', '--stripe-unit', [CompletionResultType]::ParameterName, 'Bytes of a file that go to one I/O server before the next one''s turn')
            [CompletionResult]::new('--stripe-width', '--stripe-width', [CompletionResultType]::ParameterName, 'I/O servers that a file is striped over [default: all]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;show' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;list' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per volume')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;extend' {
            [CompletionResult]::new('--io-servers', '--io-servers', [CompletionResultType]::ParameterName, 'So many more, in folders of its own below PATH')
            [CompletionResult]::new('--io-server', '--io-server', [CompletionResultType]::ParameterName, 'One more in this folder (repeat); one that does not exist, or is empty')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;check' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--repair', '--repair', [CompletionResultType]::ParameterName, 'Remove objects that belong to no file; by URL for root and the volume''s owner')
            [CompletionResult]::new('--lost', '--lost', [CompletionResultType]::ParameterName, 'Only list the files that have lost bytes with the disk of an I/O server; exits with 1 if there are any')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;stripes' {
            [CompletionResult]::new('--unit', '--unit', [CompletionResultType]::ParameterName, 'Bytes of a new file that go to one I/O server before the next one''s turn')
            [CompletionResult]::new('--width', '--width', [CompletionResultType]::ParameterName, 'I/O servers that a new file is striped over; 0 for all')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'I/O servers that a new file is striped over; 0 for all')
            [CompletionResult]::new('--first', '--first', [CompletionResultType]::ParameterName, 'The I/O server with the first stripe of each new file; without it they take turns')
            [CompletionResult]::new('--servers', '--servers', [CompletionResultType]::ParameterName, 'The I/O servers of a new file themselves, by their numbers, in the order of its stripes: 3,0,2')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--default', '--default', [CompletionResultType]::ParameterName, 'Leave it to the volume again')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;key' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;ls' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Kind, mode, links, owner, size and time of each')
            [CompletionResult]::new('--long', '--long', [CompletionResultType]::ParameterName, 'Kind, mode, links, owner, size and time of each')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Names that start with a dot too')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Names that start with a dot too')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'Directories below too')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Directories below too')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per entry')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;cat' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;stat' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per file')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;cp' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Files under way at a time, and parts of one file')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Files under way at a time, and parts of one file')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('--verify', '--verify', [CompletionResultType]::ParameterName, 'Read everything back and compare every byte with the source')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress on a terminal, and no line at the end')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress on a terminal, and no line at the end')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mkdir' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Make what is missing above too, and do not mind what exists')
            [CompletionResult]::new('--parents', '--parents', [CompletionResultType]::ParameterName, 'Make what is missing above too, and do not mind what exists')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;rm' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Names that are removed at a time, with -r')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Names that are removed at a time, with -r')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Directories with everything in them')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Do not mind what does not exist')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Do not mind what does not exist')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'With -r: no progress on a terminal, and no line at the end')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'With -r: no progress on a terminal, and no line at the end')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mv' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;df' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per file system')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;bench' {
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Concurrent streams, one connection each; several numbers make several rows')
            [CompletionResult]::new('--in-flight', '--in-flight', [CompletionResultType]::ParameterName, 'Operations in flight on each stream')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Bytes per operation, at most 1M, on a volume 64M; several sizes make several rows')
            [CompletionResult]::new('--size', '--size', [CompletionResultType]::ParameterName, 'Bytes of the file that is read or written; for stat, every 64 KiB stand for one file')
            [CompletionResult]::new('--op', '--op', [CompletionResultType]::ParameterName, 'What to measure; several make several rows')
            [CompletionResult]::new('--seconds', '--seconds', [CompletionResultType]::ParameterName, 'Time per row')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--inline-max', '--inline-max', [CompletionResultType]::ParameterName, 'gannet://: a server''s share of an operation travels in the message up to this length [default: 4K, the most]')
            [CompletionResult]::new('--fast-max', '--fast-max', [CompletionResultType]::ParameterName, 'gannet://: longer ones up to this length through buffers that both sides keep registered [default: 64K, the most]; the server moves what is longer')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per row')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('--client-based', '--client-based', [CompletionResultType]::ParameterName, 'gannet://: the client moves what is longer, up to 1M, to and from memory that the server lends it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('tile', 'tile', [CompletionResultType]::ParameterValue, 'Measure ranks that read or write tiles of one file of a volume: rows between each other''s, and rows apart')
            break
        }
        'gannet;bench;tile' {
            [CompletionResult]::new('--op', '--op', [CompletionResultType]::ParameterName, 'What the ranks do with their tiles; both make several rows')
            [CompletionResult]::new('--how', '--how', [CompletionResultType]::ParameterName, 'How a tile is asked for; several make several rows')
            [CompletionResult]::new('--hints', '--hints', [CompletionResultType]::ParameterName, 'Whether one registration serves all rows, as allocation hints make it; both make several rows')
            [CompletionResult]::new('--sieve-buffer', '--sieve-buffer', [CompletionResultType]::ParameterName, 'Bytes that data sieving moves at a time, as ROMIO''s hint ind_rd_buffer_size')
            [CompletionResult]::new('--ranks', '--ranks', [CompletionResultType]::ParameterName, 'Ranks that work at the same time')
            [CompletionResult]::new('--rows', '--rows', [CompletionResultType]::ParameterName, 'Rows of a tile')
            [CompletionResult]::new('--row', '--row', [CompletionResultType]::ParameterName, 'Bytes of a row')
            [CompletionResult]::new('--seconds', '--seconds', [CompletionResultType]::ParameterName, 'Time per layout and round')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'Rounds, of which the median counts')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per row')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;doctor' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for ever]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for MPA CRCs on RDMA connections; the server may insist on its own')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server exposes them and the client reads) where client and server are both started with it; for comparison')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'The key of the volume that gannet:// URLs name: its `client-key`')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'gannet://: read out of the servers'' memory without asking: auto, on or off [default: auto, which does it where connections survive it and as long as it pays]; bench takes several and makes several rows')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per check')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Trust the other side with one key to all transfer memory, as all-physical registration does')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;dump' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Every segment on a line of its own, lists in full, packets that are not decoded too')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Every segment on a line of its own, lists in full, packets that are not decoded too')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object per line, the counts in the last')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'One page per command')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'One script, on standard output')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'Man pages and completions for all shells, in `man` and `completions` below a directory')
            break
        }
        'gannet;generate;man' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate;completions' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate;all' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'How much to log on standard error [default: info for serve and cp, warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Log lines for people or for machines')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Only compare with what is there')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
