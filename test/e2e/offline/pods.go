package offline

import (
	"fmt"
	"strings"
)

// Label has the name of the node in the pods of a node.
const Label = "offline"

// PodsOfNode is how many pods a node has.
const PodsOfNode = 30

const container = `"terminationGracePeriodSeconds":1,"automountServiceAccountToken":false,
  "containers":[{"name":"main","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]`

// podsOf returns pods of a node for the API server, and those that the kubelet starts by itself, by their names. None asks
// for anything.
func podsOf(node string) (manifest string, static map[string]string) {
	labels := fmt.Sprintf(`"labels":{%q:%q}`, Label, node)
	on := fmt.Sprintf(`"nodeSelector":{"kubernetes.io/hostname":%q},`, node)
	var all []string
	add := func(apiVersion, kind, name, more string) {
		all = append(all, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"%s-%s",%s}%s}`, apiVersion, kind, name, node, labels, more))
	}
	template := func(name, policy string) string {
		own := fmt.Sprintf(`"labels":{%q:%q,"app":"%s-%s"}`, Label, node, name, node)
		return fmt.Sprintf(`"template":{"metadata":{%s},"spec":{%s%s%s}}`, own, policy, on, container)
	}
	of := func(name, spec string) string {
		return fmt.Sprintf(`,"spec":{%s"selector":{"matchLabels":{"app":"%s-%s"}},%s}`, spec, name, node, template(name, ""))
	}
	add("apps/v1", "Deployment", "web", of("web", `"replicas":10,`))
	for _, name := range []string{"log", "metrics", "storage", "proxy"} {
		add("apps/v1", "DaemonSet", name, of(name, ""))
	}
	add("apps/v1", "StatefulSet", "db", of("db", `"replicas":6,"serviceName":"db","podManagementPolicy":"Parallel",`))
	add("batch/v1", "Job", "import", `,"spec":{"parallelism":4,"completions":4,`+template("import", `"restartPolicy":"OnFailure",`)+`}`)
	pod := `,"spec":{` + on + container + `}`
	for _, name := range []string{"bare-1", "bare-2", "bare-3"} {
		add("v1", "Pod", name, pod)
	}
	static = map[string]string{}
	for _, name := range []string{"static-1", "static-2", "static-3"} {
		static[name] = fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default",%s}%s}`, name, labels, pod)
	}
	return strings.Join(all, "\n---\n"), static
}
