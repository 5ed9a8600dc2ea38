
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
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT')
            [CompletionResult]::new('mount', 'mount', [CompletionResultType]::ParameterValue, 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT')
            [CompletionResult]::new('volume', 'volume', [CompletionResultType]::ParameterValue, 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List directories')
            [CompletionResult]::new('cat', 'cat', [CompletionResultType]::ParameterValue, 'Write files to standard output')
            [CompletionResult]::new('stat', 'stat', [CompletionResultType]::ParameterValue, 'Show the attributes of files')
            [CompletionResult]::new('cp', 'cp', [CompletionResultType]::ParameterValue, 'Copy files and trees to, from and between servers')
            [CompletionResult]::new('mkdir', 'mkdir', [CompletionResultType]::ParameterValue, 'Make directories')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove files and directories')
            [CompletionResult]::new('mv', 'mv', [CompletionResultType]::ParameterValue, 'Move or rename files on one server')
            [CompletionResult]::new('df', 'df', [CompletionResultType]::ParameterValue, 'Show space and inodes')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure a server, or ranks that share a file of a volume (bench tile)')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Diagnose this host or a server, and say how to fix problems')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Decode a packet capture of NFS over iWARP or TCP, a line for each message')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print the version')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write man pages and shell completions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;demo' {
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Generate the names, sizes and contents of the tree from this seed')
            [CompletionResult]::new('--scratch', '--scratch', [CompletionResultType]::ParameterName, 'Make the scratch directory in DIR [default: the system''s temporary directory]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per row')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;serve' {
            [CompletionResult]::new('--volume', '--volume', [CompletionResultType]::ParameterName, 'Export this striped volume as `/` in place of a directory')
            [CompletionResult]::new('--nfs-tcp', '--nfs-tcp', [CompletionResultType]::ParameterName, 'Listen for NFS over TCP at ADDRESS:PORT, or `off` [default: 127.0.0.1:2049]')
            [CompletionResult]::new('--nfs-rdma', '--nfs-rdma', [CompletionResultType]::ParameterName, 'Listen for NFS over RDMA at ADDRESS:PORT, or `off` [default: as --nfs-tcp, with port 20049]')
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'Serve NFS to clients at these addresses or networks (repeat, or separate by commas) [default: this host alone]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read exports, addresses and settings from this file; gannet-serve(1) lists its keys')
            [CompletionResult]::new('--ready-file', '--ready-file', [CompletionResultType]::ParameterName, 'Write the ready line to this file too')
            [CompletionResult]::new('--native', '--native', [CompletionResultType]::ParameterName, 'Listen for gannet:// URLs at ADDRESS:PORT, or `off` for this host alone [default: 0.0.0.0:20050]')
            [CompletionResult]::new('--role', '--role', [CompletionResultType]::ParameterName, 'Run only this server of the volume: `manager` or `io-server=N` (repeat) [default: all]')
            [CompletionResult]::new('--lost-disk', '--lost-disk', [CompletionResultType]::ParameterName, 'Serve I/O server N from an empty folder, once, because its disk is lost for good (repeat)')
            [CompletionResult]::new('--manager', '--manager', [CompletionResultType]::ParameterName, 'The address of the manager, for I/O servers that run without it [default: that of volume.toml]')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63) [default: those of volume.toml, or 0]')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'Serve with N threads [default: one for each core]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Require CRCs on RDMA connections; off uses them when the client asks for them [default: off]')
            [CompletionResult]::new('--state-dir', '--state-dir', [CompletionResultType]::ParameterName, 'Keep the key that signs file handles here, so that handles survive a restart [default: see gannet-serve(1)]')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Send READ data by this engine: static, dynamic or sendfile [default: static if short, sendfile if long]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--read-only', '--read-only', [CompletionResultType]::ParameterName, 'Refuse every change')
            [CompletionResult]::new('--no-root-squash', '--no-root-squash', [CompletionResultType]::ParameterName, 'Keep root of a client root here, in place of the anonymous user (65534)')
            [CompletionResult]::new('--secure', '--secure', [CompletionResultType]::ParameterName, 'Serve NFS only to connections from ports below 1024, which only root can open on a client')
            [CompletionResult]::new('--manage-gids', '--manage-gids', [CompletionResultType]::ParameterName, 'Take the groups of callers from this host''s user database, and not from calls, which carry at most 16')
            [CompletionResult]::new('--force-term', '--force-term', [CompletionResultType]::ParameterName, 'Serve metadata from a backup, although I/O servers have seen newer metadata')
            [CompletionResult]::new('--async-metadata', '--async-metadata', [CompletionResultType]::ParameterName, 'Reply to creates, removes, renames and attribute changes before they are durable')
            [CompletionResult]::new('--sync-metadata', '--sync-metadata', [CompletionResultType]::ParameterName, 'A former option, which is refused with an explanation')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mount' {
            [CompletionResult]::new('--cache-age', '--cache-age', [CompletionResultType]::ParameterName, 'Cache names and attributes for this long')
            [CompletionResult]::new('--locks', '--locks', [CompletionResultType]::ParameterName, 'Where file locks (flock, fcntl) hold [default: shared on volumes, local over NFS]')
            [CompletionResult]::new('--ready-file', '--ready-file', [CompletionResultType]::ParameterName, 'Write the line `mounted URL at DIR` to this file too')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--direct', '--direct', [CompletionResultType]::ParameterName, 'Bypass the kernel''s page cache: send every read and write to the server')
            [CompletionResult]::new('--read-only', '--read-only', [CompletionResultType]::ParameterName, 'Refuse every change')
            [CompletionResult]::new('--allow-other', '--allow-other', [CompletionResultType]::ParameterName, 'Allow other users, each with their own rights; unless root mounts, /etc/fuse.conf must have user_allow_other')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a volume in a folder')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a volume''s servers, stripes, identity and space')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List volumes, and the volumes in folders')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Add I/O servers to a volume that is not being served')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check that the names, attributes and objects of a volume agree')
            [CompletionResult]::new('stripes', 'stripes', [CompletionResultType]::ParameterValue, 'Show or set how files are striped')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Make a new client key for a volume')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;volume;create' {
            [CompletionResult]::new('--io-servers', '--io-servers', [CompletionResultType]::ParameterName, 'Make N I/O servers, in folders below PATH')
            [CompletionResult]::new('--io-server', '--io-server', [CompletionResultType]::ParameterName, 'Make an I/O server in this folder, which must be empty or not exist (repeat); a disk for each is usual')
            [CompletionResult]::new('--stripe-unit', '--stripe-unit', [CompletionResultType]::ParameterName, 'Write SIZE bytes of a file to one I/O server before the next')
            [CompletionResult]::new('--stripe-width', '--stripe-width', [CompletionResultType]::ParameterName, 'Stripe each file over N I/O servers [default: all]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;show' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;list' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per volume')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;extend' {
            [CompletionResult]::new('--io-servers', '--io-servers', [CompletionResultType]::ParameterName, 'Add N I/O servers, in folders below PATH')
            [CompletionResult]::new('--io-server', '--io-server', [CompletionResultType]::ParameterName, 'Add an I/O server in this folder, which must be empty or not exist (repeat)')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;check' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--repair', '--repair', [CompletionResultType]::ParameterName, 'Remove objects that belong to no file; with a URL, only root and the volume''s owner may')
            [CompletionResult]::new('--lost', '--lost', [CompletionResultType]::ParameterName, 'Only list the files that lost bytes with the disk of an I/O server; the exit status is 1 if there are any')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;stripes' {
            [CompletionResult]::new('--unit', '--unit', [CompletionResultType]::ParameterName, 'Write SIZE bytes of a new file to one I/O server before the next')
            [CompletionResult]::new('--width', '--width', [CompletionResultType]::ParameterName, 'Stripe each new file over N I/O servers; 0 is all')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'Stripe each new file over N I/O servers; 0 is all')
            [CompletionResult]::new('--first', '--first', [CompletionResultType]::ParameterName, 'Begin each new file on I/O server N [default: each in turn]')
            [CompletionResult]::new('--servers', '--servers', [CompletionResultType]::ParameterName, 'Stripe new files over these I/O servers, in this order: 3,0,2')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--default', '--default', [CompletionResultType]::ParameterName, 'Use the volume''s stripes again for new files of the directory')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;key' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;volume;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a volume in a folder')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a volume''s servers, stripes, identity and space')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List volumes, and the volumes in folders')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Add I/O servers to a volume that is not being served')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check that the names, attributes and objects of a volume agree')
            [CompletionResult]::new('stripes', 'stripes', [CompletionResultType]::ParameterValue, 'Show or set how files are striped')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Make a new client key for a volume')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;volume;help;create' {
            break
        }
        'gannet;volume;help;show' {
            break
        }
        'gannet;volume;help;list' {
            break
        }
        'gannet;volume;help;extend' {
            break
        }
        'gannet;volume;help;check' {
            break
        }
        'gannet;volume;help;stripes' {
            break
        }
        'gannet;volume;help;key' {
            break
        }
        'gannet;volume;help;help' {
            break
        }
        'gannet;ls' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Show type, mode, links, owner, group, size and time of modification (UTC)')
            [CompletionResult]::new('--long', '--long', [CompletionResultType]::ParameterName, 'Show type, mode, links, owner, group, size and time of modification (UTC)')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'As -l, with the numbers of owners and groups')
            [CompletionResult]::new('--numeric-ids', '--numeric-ids', [CompletionResultType]::ParameterName, 'As -l, with the numbers of owners and groups')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'With -l, show sizes in KiB, MiB and so on')
            [CompletionResult]::new('--human-readable', '--human-readable', [CompletionResultType]::ParameterName, 'With -l, show sizes in KiB, MiB and so on')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Sort by time of modification, newest first')
            [CompletionResult]::new('--sort-by-time', '--sort-by-time', [CompletionResultType]::ParameterName, 'Sort by time of modification, newest first')
            [CompletionResult]::new('-S', '-S ', [CompletionResultType]::ParameterName, 'Sort by size, largest first')
            [CompletionResult]::new('--sort-by-size', '--sort-by-size', [CompletionResultType]::ParameterName, 'Sort by size, largest first')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Reverse the order')
            [CompletionResult]::new('--reverse', '--reverse', [CompletionResultType]::ParameterName, 'Reverse the order')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Include names that start with a dot')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Include names that start with a dot')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'List directories recursively')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'List directories recursively')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per entry')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            break
        }
        'gannet;cat' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;stat' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per file')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;cp' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Copy N files at a time, and N blocks of each')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Copy N files at a time, and N blocks of each')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Copy directories with everything in them')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'Copy directories with everything in them')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Copy directories with everything in them')
            [CompletionResult]::new('--verify', '--verify', [CompletionResultType]::ParameterName, 'Read each copy back and compare every byte with the source')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Print no progress and no summary')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print no progress and no summary')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mkdir' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Make missing parent directories, and accept directories that exist')
            [CompletionResult]::new('--parents', '--parents', [CompletionResultType]::ParameterName, 'Make missing parent directories, and accept directories that exist')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;rm' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'With -r, remove N names at a time')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'With -r, remove N names at a time')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Remove directories with everything in them')
            [CompletionResult]::new('-R', '-R ', [CompletionResultType]::ParameterName, 'Remove directories with everything in them')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Remove directories with everything in them')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Ignore names that do not exist')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Ignore names that do not exist')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'With -r, print no progress and no summary')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'With -r, print no progress and no summary')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;mv' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;df' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per file system')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;bench' {
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Run N streams, each with a connection and a thread; each value makes a row')
            [CompletionResult]::new('--in-flight', '--in-flight', [CompletionResultType]::ParameterName, 'Keep N operations in flight on each stream')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Move SIZE bytes with each operation, at most 1M, on a volume 64M; each value makes a row')
            [CompletionResult]::new('--size', '--size', [CompletionResultType]::ParameterName, 'Read or write a file of SIZE bytes; stat uses a file for each 64 KiB of it')
            [CompletionResult]::new('--op', '--op', [CompletionResultType]::ParameterName, 'Measure this operation; each value makes a row')
            [CompletionResult]::new('--seconds', '--seconds', [CompletionResultType]::ParameterName, 'Measure each row for this long')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--inline-max', '--inline-max', [CompletionResultType]::ParameterName, 'Send up to SIZE bytes for one I/O server within the message [default: 4K, the maximum]')
            [CompletionResult]::new('--fast-max', '--fast-max', [CompletionResultType]::ParameterName, 'Send up to SIZE bytes through eager buffers, which stay registered [default: 64K, the maximum]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per row')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('--client-based', '--client-based', [CompletionResultType]::ParameterName, 'Let the client move longer data, up to 1M, to and from a client-driven buffer of the server')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('tile', 'tile', [CompletionResultType]::ParameterValue, 'Measure ranks that read or write tiles of one shared file of a volume')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;bench;tile' {
            [CompletionResult]::new('--op', '--op', [CompletionResultType]::ParameterName, 'Read or write tiles; each value makes a row')
            [CompletionResult]::new('--how', '--how', [CompletionResultType]::ParameterName, 'Request a tile this way; each value makes a row')
            [CompletionResult]::new('--hints', '--hints', [CompletionResultType]::ParameterName, 'Register the rows of a tile at once (on) or each by itself (off); each value makes a row')
            [CompletionResult]::new('--sieve-buffer', '--sieve-buffer', [CompletionResultType]::ParameterName, 'Move SIZE bytes at a time by data sieving, as ROMIO''s hint ind_rd_buffer_size')
            [CompletionResult]::new('--ranks', '--ranks', [CompletionResultType]::ParameterName, 'Run N ranks at the same time')
            [CompletionResult]::new('--rows', '--rows', [CompletionResultType]::ParameterName, 'Give each tile N rows')
            [CompletionResult]::new('--row', '--row', [CompletionResultType]::ParameterName, 'Give each row SIZE bytes')
            [CompletionResult]::new('--seconds', '--seconds', [CompletionResultType]::ParameterName, 'Measure each layout for this long in each round')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'Measure N rounds, and report their median')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per row')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;bench;help' {
            [CompletionResult]::new('tile', 'tile', [CompletionResultType]::ParameterValue, 'Measure ranks that read or write tiles of one shared file of a volume')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;bench;help;tile' {
            break
        }
        'gannet;bench;help;help' {
            break
        }
        'gannet;doctor' {
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]')
            [CompletionResult]::new('--crc', '--crc', [CompletionResultType]::ParameterName, 'Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'Call as this user [default: the caller''s own]')
            [CompletionResult]::new('--gid', '--gid', [CompletionResultType]::ParameterName, 'Call as this group [default: the caller''s own]')
            [CompletionResult]::new('--registration', '--registration', [CompletionResultType]::ParameterName, 'Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical')
            [CompletionResult]::new('--design', '--design', [CompletionResultType]::ParameterName, 'Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)')
            [CompletionResult]::new('--volume-key', '--volume-key', [CompletionResultType]::ParameterName, 'Prove access with this key: the file `client-key` of the volume')
            [CompletionResult]::new('--dscp', '--dscp', [CompletionResultType]::ParameterName, 'Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]')
            [CompletionResult]::new('--optimistic', '--optimistic', [CompletionResultType]::ParameterName, 'Read cached blocks from the servers'' memory by RDMA Read, without a request: auto, on or off [default: auto]')
            [CompletionResult]::new('--read-cache', '--read-cache', [CompletionResultType]::ParameterName, 'Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per check')
            [CompletionResult]::new('--trust-peer', '--trust-peer', [CompletionResultType]::ParameterName, 'Give the peer one key to all transfer memory, as all-physical registration requires')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;dump' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Print each segment on a line of its own, whole lists, and packets that are not decoded')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Print each segment on a line of its own, whole lists, and packets that are not decoded')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per message; the last has the counts')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;version' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page for each command')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'Write man pages and completions for all shells to `man` and `completions` below a directory')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;generate;man' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate;completions' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate;all' {
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Log to standard error from this level up [default: info for serve, mount and cp; warn otherwise]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Write log lines in this format')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Compare with the files that are there, and write nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'gannet;generate;help' {
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page for each command')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'Write man pages and completions for all shells to `man` and `completions` below a directory')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;generate;help;man' {
            break
        }
        'gannet;generate;help;completions' {
            break
        }
        'gannet;generate;help;all' {
            break
        }
        'gannet;generate;help;help' {
            break
        }
        'gannet;help' {
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT')
            [CompletionResult]::new('mount', 'mount', [CompletionResultType]::ParameterValue, 'Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT')
            [CompletionResult]::new('volume', 'volume', [CompletionResultType]::ParameterValue, 'Make, show, extend and check striped volumes; `gannet serve --volume` serves them')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List directories')
            [CompletionResult]::new('cat', 'cat', [CompletionResultType]::ParameterValue, 'Write files to standard output')
            [CompletionResult]::new('stat', 'stat', [CompletionResultType]::ParameterValue, 'Show the attributes of files')
            [CompletionResult]::new('cp', 'cp', [CompletionResultType]::ParameterValue, 'Copy files and trees to, from and between servers')
            [CompletionResult]::new('mkdir', 'mkdir', [CompletionResultType]::ParameterValue, 'Make directories')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove files and directories')
            [CompletionResult]::new('mv', 'mv', [CompletionResultType]::ParameterValue, 'Move or rename files on one server')
            [CompletionResult]::new('df', 'df', [CompletionResultType]::ParameterValue, 'Show space and inodes')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure a server, or ranks that share a file of a volume (bench tile)')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Diagnose this host or a server, and say how to fix problems')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Decode a packet capture of NFS over iWARP or TCP, a line for each message')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print the version')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write man pages and shell completions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'gannet;help;demo' {
            break
        }
        'gannet;help;serve' {
            break
        }
        'gannet;help;mount' {
            break
        }
        'gannet;help;volume' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a volume in a folder')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a volume''s servers, stripes, identity and space')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List volumes, and the volumes in folders')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Add I/O servers to a volume that is not being served')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check that the names, attributes and objects of a volume agree')
            [CompletionResult]::new('stripes', 'stripes', [CompletionResultType]::ParameterValue, 'Show or set how files are striped')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Make a new client key for a volume')
            break
        }
        'gannet;help;volume;create' {
            break
        }
        'gannet;help;volume;show' {
            break
        }
        'gannet;help;volume;list' {
            break
        }
        'gannet;help;volume;extend' {
            break
        }
        'gannet;help;volume;check' {
            break
        }
        'gannet;help;volume;stripes' {
            break
        }
        'gannet;help;volume;key' {
            break
        }
        'gannet;help;ls' {
            break
        }
        'gannet;help;cat' {
            break
        }
        'gannet;help;stat' {
            break
        }
        'gannet;help;cp' {
            break
        }
        'gannet;help;mkdir' {
            break
        }
        'gannet;help;rm' {
            break
        }
        'gannet;help;mv' {
            break
        }
        'gannet;help;df' {
            break
        }
        'gannet;help;bench' {
            [CompletionResult]::new('tile', 'tile', [CompletionResultType]::ParameterValue, 'Measure ranks that read or write tiles of one shared file of a volume')
            break
        }
        'gannet;help;bench;tile' {
            break
        }
        'gannet;help;doctor' {
            break
        }
        'gannet;help;dump' {
            break
        }
        'gannet;help;version' {
            break
        }
        'gannet;help;generate' {
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page for each command')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'Write man pages and completions for all shells to `man` and `completions` below a directory')
            break
        }
        'gannet;help;generate;man' {
            break
        }
        'gannet;help;generate;completions' {
            break
        }
        'gannet;help;generate;all' {
            break
        }
        'gannet;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
