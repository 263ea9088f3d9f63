package tokens_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/testenv"
)

// inSubset is a patch of the annotation with a pod's subset, beside others.
func inSubset(subset, others string) string {
	return `{"metadata":{"annotations":{"apps.kruise.io/matched-workloadspread":"` + subset + `"` + others + `}}`
}

// The token of the controller gives pods a subset, and with it metadata that they lack. It deletes
// pods that wait for a node of their subset, or are away from it.
func TestTheTokenServesSpreads(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	token := env.As(t, env.Token(t, controller, node.Name))
	pod := func(name, on string, pairs ...string) *corev1.Pod {
		p := testenv.APod(name).In(ns).With("owner", "tenant")
		p.Labels = map[string]string{"app": "web"}
		for i := 0; i < len(pairs); i += 2 {
			p = p.With(pairs[i], pairs[i+1])
		}
		if on != "" {
			p = p.On(on)
		}
		env.Create(t, p.Pod)
		return p.Pod
	}
	const match, networks = "apps.kruise.io/matched-workloadspread", "k8s.v1.cni.cncf.io/networks"
	free, runs := pod("free", "", networks, "tenant"), pod("runs", node.Name, match, "{}")
	waits, away := pod("waits", "", match, "{}"), pod("away", node.Name, match, "{}", "limpet.dev/home-subset", "a")
	sent := pod("sent", node.Name, "limpet.dev/may-return", "n-other")
	there := pod("there", node.Name, "limpet.dev/may-return", node.Name)
	metadata := func(more string) string { return `{"metadata":{"annotations":{"` + match + `":"{}"}` + more + `}}` }
	for name, do := range map[string]request{
		"change a label with it":                    patch(free, metadata(`,"labels":{"app":"other"}`)),
		"remove a label with it":                    patch(free, metadata(`,"labels":{"app":null}`)),
		"add a label of Kubernetes with it":         patch(free, metadata(`,"labels":{"topology.kubernetes.io/zone":"a"}`)),
		"add a label of Limpet with it":             patch(free, metadata(`,"labels":{"limpet.dev/a":"b"}`)),
		"add a finalizer with it":                   patch(free, metadata(`,"finalizers":["example.com/a"]`)),
		"add a label without it":                    patch(free, `{"metadata":{"labels":{"tier":"hot"}}}`),
		"add a label to a pod that has a subset":    patch(runs, metadata(`,"labels":{"tier":"hot"}`)),
		"attach another network with it":            patch(free, inSubset("{}", `,"`+networks+`":"evil"`)+`}`),
		"add an annotation of Limpet with it":       patch(free, inSubset("{}", `,"limpet.dev/pinned-node":"n"`)+`}`),
		"add an annotation of OpenKruise with it":   patch(free, inSubset("{}", `,"apps.kruise.io/other":"n"`)+`}`),
		"take the subset away":                      patch(runs, `{"metadata":{"annotations":{"`+match+`":null}}}`),
		"send a pod away from its subset":           patch(runs, `{"metadata":{"annotations":{"limpet.dev/home-subset":"a"}}}`),
		"delete a pod that runs in its subset":      remove(runs),
		"delete a pod that waits and has no subset": remove(free),
		"send a pod away from its home":             patch(runs, `{"metadata":{"annotations":{"limpet.dev/may-return":"n"}}}`),
		"delete a pod that is at its home":          remove(there),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, denied, do) })
	}
	for _, step := range []struct {
		what string
		do   request
	}{
		{"give a pod a subset", patch(free, metadata(`,"labels":{"tier":"hot"}`))},
		{"give a pod another subset", patch(runs, inSubset("{a}", `,"own":"1"`)+`}`)},
		{"delete a pod that waits for its subset", remove(waits)},
		{"delete a pod that is away", remove(away)},
		{"delete a pod that is away from its home", remove(sent)},
	} {
		t.Run(step.what, func(t *testing.T) { allowed(t, token, step.do) })
	}
}
