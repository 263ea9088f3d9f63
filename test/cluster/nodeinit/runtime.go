package nodeinit

// The runtimes.
const (
	Containerd = "containerd"
	CRIO       = "crio"
)

// runtime is a program that runs the containers of a node.
type runtime struct {
	service service
	socket  string
	// images brings the images of the node to the runtime.
	images func(*supervisor) error
}

var runtimes = map[string]runtime{
	Containerd: {
		service{Containerd, []string{"containerd", "--config", "/etc/containerd/config.toml"}},
		"/run/containerd/containerd.sock",
		(*supervisor).importImages,
	},
	CRIO: {service{CRIO, []string{"crio", "--config", "/etc/crio/crio.conf"}}, "/run/crio/crio.sock", (*supervisor).serveImages},
}

// Socket returns where a runtime listens.
func Socket(runtime string) string { return runtimes[runtime].socket }
