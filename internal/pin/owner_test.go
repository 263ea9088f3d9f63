package pin_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
)

func TestCompleteOwner(t *testing.T) {
	of := func(apiVersion, kind, name string) workload.Owner {
		return workload.Owner{Target: workload.NewTarget(apiVersion, kind, name)}
	}
	set, web := of("apps/v1", "ReplicaSet", "web-abc"), of("apps/v1", "Deployment", "web")
	for name, tc := range map[string]struct {
		asked string
		chain []workload.Owner
		want  string
	}{
		"of a Deployment":                      {"db", []workload.Owner{set, web}, "apps/Deployment/web/db"},
		"of a template that was copied":        {"apps/Deployment/shop/db", []workload.Owner{set, web}, "apps/Deployment/web/db"},
		"of a Deployment with another name":    {"db", []workload.Owner{set, of("apps/v1", "Deployment", "we")}, "apps/ReplicaSet/web-abc/db"},
		"of another kind above a ReplicaSet":   {"db", []workload.Owner{set, of("argoproj.io/v1alpha1", "Rollout", "web")}, "apps/ReplicaSet/web-abc/db"},
		"of a CronJob":                         {"db", []workload.Owner{of("batch/v1", "Job", "web-29"), of("batch/v1", "CronJob", "web")}, "batch/CronJob/web/db"},
		"of a Job that a user made":            {"db", []workload.Owner{of("batch/v1", "Job", "web-by-hand"), of("batch/v1", "CronJob", "web")}, "batch/Job/web-by-hand/db"},
		"of a virtual machine":                 {"db", []workload.Owner{of("kubevirt.io/v1", "VirtualMachineInstance", "vm")}, "kubevirt.io/VirtualMachineInstance/vm/db"},
		"of none":                              {"db", nil, "///db"},
		"without a name":                       {"", nil, ""},
		"without a name, of another one":       {"apps/Deployment/web/", []workload.Owner{set, web}, ""},
		"that is no name":                      {"D B", []workload.Owner{set, web}, ""},
		"with a name that no field takes":      {strings.Repeat("a", 64), []workload.Owner{set, web}, ""},
		"of a controller with too long a name": {"db", []workload.Owner{of("apps/v1", "ReplicaSet", strings.Repeat("a", 253))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web").With(owner, tc.asked).Pod
			pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
			if got := pin.CompleteOwner(pod, tc.chain); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The pod of an owner returns to the first holder whose node exists.
func TestHomeOfOwner(t *testing.T) {
	pod, nodes := testenv.APod("").Pod, map[string]*corev1.Node{"n2": testenv.ANode("n2").Node, "n1": nil}
	state, node := pin.HomeOfOwner(pod, []pin.Holder{{Node: "n1"}, {Node: "n2", UID: "u", IPs: "10.0.0.2"}}, nodes)
	if node == nil || node.Name != "n2" || pin.RecordedNode(state, pod.Name) != "n2" {
		t.Errorf("got %v, %+v", node, state)
	}
	if state, node = pin.HomeOfOwner(pod, []pin.Holder{{Node: "n1"}}, nodes); state != nil || node != nil {
		t.Errorf("got %v, %+v without a node", node, state)
	}
}

func TestNotOwner(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.Unix(second, 0) }
	pod := func(uid string, made int64, value string) testenv.Pod {
		p := testenv.APod("p-"+uid).With(keep, "10m").With(owner, value)
		p.UID, p.CreationTimestamp = types.UID(uid), at(made)
		return p
	}
	ended := pod("a", 1, "///db")
	ended.Status.Phase = corev1.PodFailed
	set := testenv.AStatefulSet("web", 1).StatefulSet
	for name, tc := range map[string]struct {
		pod  testenv.Pod
		of   []testenv.Pod
		tell bool
	}{
		"the only one":                       {pod("a", 1, "///db"), []testenv.Pod{pod("a", 1, "///db")}, false},
		"a second one":                       {pod("b", 2, "///db"), []testenv.Pod{pod("a", 1, "///db"), pod("b", 2, "///db")}, true},
		"the first of two":                   {pod("a", 1, "///db"), []testenv.Pod{pod("a", 1, "///db"), pod("b", 2, "///db")}, false},
		"the second of two of one second":    {pod("b", 1, "///db"), []testenv.Pod{pod("a", 1, "///db")}, true},
		"one that was left out":              {pod("a", 1, "db"), []testenv.Pod{pod("b", 2, "///db")}, true},
		"one that came while none answered":  {pod("a", 1, "db"), nil, true},
		"one whose predecessor has ended":    {pod("b", 2, "///db"), []testenv.Pod{ended}, false},
		"one of a workload that names again": {pod("a", 1, "db").OwnedBy(set), nil, false},
		"one that asks for no address":       {testenv.APod("a").With(owner, "db"), nil, false},
		"one that asks for no owner":         {testenv.APod("a").With(keep, "10m"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var of []corev1.Pod
			for _, p := range tc.of {
				of = append(of, *p.Pod)
			}
			if n, tell := pin.NotOwner(tc.pod.Pod, of); tell != tc.tell {
				t.Errorf("told: %t, %+v", tell, n)
			}
		})
	}
}
