package cluster

import "github.com/limpet-io/limpet/test/cluster/nodeinit"

// The files of CRI-O. It calls runc by a script that lets containers start where the machine withholds CAP_SYS_RESOURCE,
// as restrict_oom_score_adj does for containerd. Debian 12's crun knows no specification of containers that CRI-O writes.
const (
	crioConfig = `[crio]
storage_driver = "overlay"

[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "/limpet/crio/pinns"
default_runtime = "runc"

[crio.runtime.runtimes.runc]
runtime_path = "/etc/crio/runc"
monitor_path = "/usr/bin/conmon"

[crio.image]
pause_image = "limpet.test/pause:1"

[crio.network]
plugin_dirs = ["/opt/cni/bin"]
network_dir = "/etc/cni/net.d"
`
	runcScript = `#!/bin/sh
next=
for arg; do
	[ "$next" != --bundle ] || sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj": 0/' "$arg/config.json"
	next=$arg
done
exec /usr/sbin/runc "$@"
`
	crioPolicy     = `{"default": [{"type": "insecureAcceptAnything"}]}`
	crioRegistries = `unqualified-search-registries = ["docker.io"]
short-name-mode = "disabled"
[[registry]]
prefix = "docker.io"
location = "` + nodeinit.Registry + `"
insecure = true
[[registry]]
prefix = "limpet.test"
location = "` + nodeinit.Registry + `"
insecure = true
`
)
