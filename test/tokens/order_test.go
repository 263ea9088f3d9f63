package tokens_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// costs is a patch of the two annotations of a deletion cost; null removes one.
func costs(cost, mark string) string {
	return `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":` + cost + `,"limpet.dev/deletion-cost":` + mark + `}}}`
}

// The token of the controller changes the deletion costs that the controller has written, and
// those of OpenKruise's spreads. A cost of a user stays.
func TestTheTokenChangesOnlyItsOwnCosts(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	token := env.As(t, env.Token(t, controller, node.Name))
	pod := func(name string, annotations ...string) *corev1.Pod {
		p := testenv.APod(name).In(ns).With("owner", "tenant")
		if len(annotations) > 0 {
			p = p.With(corev1.PodDeletionCost, annotations[0])
		}
		if len(annotations) > 1 {
			p = p.With("limpet.dev/deletion-cost", annotations[1])
		}
		env.Create(t, p.Pod)
		return p.Pod
	}
	users, marked, like, free := pod("users", "7"), pod("marked", "7", "100"), pod("like", "-300"), pod("free")
	kruises := testenv.APod("kruises").In(ns).With(corev1.PodDeletionCost, "-300").Pod
	if err := env.Client.Create(t.Context(), kruises, client.FieldOwner("kruise-manager")); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, kruises)
	for name, do := range map[string]request{
		"change a user's cost":                  patch(users, costs(`"100"`, `"100"`)),
		"change one that is like OpenKruise's":  patch(like, costs(`"200"`, `"200"`)),
		"remove a user's cost":                  patch(users, costs(`null`, `null`)),
		"mark a user's cost as its own":         patch(users, costs(`"7"`, `"7"`)),
		"change a cost that a user has changed": patch(marked, costs(`"100"`, `"100"`)),
		"write a cost without the mark":         patch(free, costs(`"100"`, `null`)),
		"write another mark":                    patch(free, costs(`"100"`, `"200"`)),
		"write a label beside it":               patch(free, `{"metadata":{"labels":{"a":"b"},"annotations":{"controller.kubernetes.io/pod-deletion-cost":"1","limpet.dev/deletion-cost":"1"}}}`),
		"attach a network beside it":            patch(free, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"evil","controller.kubernetes.io/pod-deletion-cost":"1","limpet.dev/deletion-cost":"1"}}}`),
		"remove all annotations beside it":      patch(free, `{"metadata":{"annotations":null}}`),
		"change the spec beside it":             patch(free, `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"1","limpet.dev/deletion-cost":"1"}},"spec":{"activeDeadlineSeconds":1}}`),
		"write the mark alone":                  patch(free, `{"metadata":{"annotations":{"limpet.dev/deletion-cost":"1"}}}`),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, denied, do) })
	}
	for _, step := range []struct {
		what string
		do   request
	}{
		{"write a cost", patch(free, costs(`"100"`, `"100"`))},
		{"change it", patch(free, costs(`"-200"`, `"-200"`))},
		{"remove it", patch(free, costs(`null`, `null`))},
		{"take over a cost of OpenKruise", patch(kruises, costs(`"200"`, `"200"`))},
	} {
		t.Run(step.what, func(t *testing.T) { allowed(t, token, step.do) })
	}
}

// The token of the controller copies what a workload or a namespace asks onto pods, with a mark, and changes and removes
// what it copied. What a pod asks itself stays.
func TestTheTokenCopiesWhatIsAskedForPods(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	token := env.As(t, env.Token(t, controller, node.Name))
	env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, "limpet.dev/keep", "10m")
	set := testenv.AStatefulSet("web", 1).In(ns)
	own := testenv.APod("own").In(ns).With("limpet.dev/keep", "1m").Pod
	free := testenv.APod("free").In(ns).OwnedBy(set.StatefulSet).With("owner", "tenant").Pod
	env.Create(t, own, free)
	keep := func(value, from string) string {
		return `{"metadata":{"annotations":{"limpet.dev/keep":` + value + `,"limpet.dev/keep-from":` + from + `}}}`
	}
	for name, do := range map[string]request{
		"change what a pod asks":      patch(own, keep(`"24h"`, `"Namespace"`)),
		"mark it as copied":           patch(own, keep(`"1m"`, `"Namespace"`)),
		"remove it":                   patch(own, keep(`null`, `null`)),
		"copy without the mark":       patch(free, keep(`"10m"`, `null`)),
		"write the mark alone":        patch(free, keep(`null`, `"Namespace"`)),
		"copy another value":          patch(free, keep(`"24h"`, `"Namespace"`)),
		"copy from another kind":      patch(free, keep(`"24h"`, `"Deployment"`)),
		"copy a long value":           patch(free, keep(`"`+strings.Repeat("1", 65)+`h"`, `"StatefulSet"`)),
		"ask in minutes":              patch(free, `{"metadata":{"annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}}}`),
		"require its addresses":       patch(free, `{"metadata":{"annotations":{"limpet.dev/retention":"required"}}}`),
		"remove an annotation beside": patch(free, `{"metadata":{"annotations":{"owner":null,"io.kubernetes.cri/x":"y","limpet.dev/keep":"10m","limpet.dev/keep-from":"Namespace"}}}`),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, denied, do) })
	}
	for _, do := range []request{
		patch(free, keep(`"10m"`, `"Namespace"`)), patch(free, keep(`"5m"`, `"StatefulSet"`)), patch(free, keep(`null`, `null`)),
	} {
		allowed(t, token, do)
	}
}

// The token of the controller opens both gates of Limpet, and writes the partition of a
// StatefulSet that asks for it.
func TestTheTokenServesRollouts(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	token := env.As(t, env.Token(t, controller, node.Name))
	pod := testenv.APod("gated").In(ns).Gated("limpet.dev/scale-out", "limpet.dev/pin", "example.com/own").Pod
	plain := testenv.AStatefulSet("plain", 1).In(ns).StatefulSet
	asks := testenv.AStatefulSet("asks", 1).In(ns).With("limpet.dev/partition", "50%").StatefulSet
	env.Create(t, pod, plain, asks)
	open := func(gate string) request {
		return func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"spec":{"schedulingGates":[{"$patch":"delete","name":"`+gate+`"}]}}`)))
		}
	}
	const partition = `"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}`
	for name, do := range map[string]request{
		"open the gate of another program":        open("example.com/own"),
		"write a partition that no user asks for": patch(plain, `{`+partition+`}`),
		"tell of updates without a partition":     patch(plain, `{"metadata":{"annotations":{"limpet.dev/expected-updated-replicas":"1"}}}`),
		"ask for a partition itself":              patch(plain, `{"metadata":{"annotations":{"limpet.dev/partition":"50%"}},`+partition+`}`),
		"change the percentage":                   patch(asks, `{"metadata":{"annotations":{"limpet.dev/partition":"0%"}}}`),
		"scale beside the partition":              patch(asks, `{"spec":{"replicas":0,"updateStrategy":{"rollingUpdate":{"partition":3}}}}`),
		"change the strategy":                     patch(asks, `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`),
		"change the image":                        patch(asks, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"evil"}]}}}}`),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, denied, do) })
	}
	for _, step := range []struct {
		what string
		do   request
	}{
		{"open the gate of the limit", open("limpet.dev/scale-out")},
		{"open the gate of the pin", open("limpet.dev/pin")},
		{"write a partition", patch(asks, `{"metadata":{"annotations":{"limpet.dev/expected-updated-replicas":"1"}},`+partition+`}`)},
		{"remove what it told", patch(asks, `{"metadata":{"annotations":{"limpet.dev/expected-updated-replicas":null}}}`)},
	} {
		t.Run(step.what, func(t *testing.T) { allowed(t, token, step.do) })
	}
}
