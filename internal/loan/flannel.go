package loan

// FlannelBackend and flannelKube are annotations that flannel writes on its Node: how it reaches other nodes, and that its subnet
// is the pod CIDR of the Node.
const (
	FlannelBackend = "flannel.alpha.coreos.com/backend-type"
	flannelKube    = "flannel.alpha.coreos.com/kube-subnet-manager"
)

// FlannelAnnotations returns the annotations of a Node with a backend.
func FlannelAnnotations(backend string) map[string]string {
	return map[string]string{FlannelBackend: backend, flannelKube: "true"}
}

// Flannel returns the backend of flannel on a Node with these annotations, where addresses can follow; "" elsewhere.
func Flannel(annotations map[string]string) string {
	backend := annotations[FlannelBackend]
	if annotations[flannelKube] != "true" || backend != "host-gw" && backend != "vxlan" {
		return ""
	}
	return backend
}
