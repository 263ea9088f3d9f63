package guard_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// No steps by which a user changes the owners of a pod end with owners that the user may delete.
func TestOwnersThatChangeInStepsAreJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 4, intstr.FromInt32(0))
	mine := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "mine"}
	for i, steps := range [][]func([]metav1.OwnerReference) []metav1.OwnerReference{
		{ // an owner beside the controller, which takes over when the controller goes
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[1].Controller = new(true)
				return o[1:]
			},
		},
		{ // an owner that stays when the controller goes
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return o[1:] },
		},
		{ // a controller whose UID stays, with a name that the garbage collector does not find
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[0].Name = "none"
				return append(o, mine)
			},
		},
		{ // a controller that becomes an owner first
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[0].Controller, o[1].Controller = nil, new(true)
				return o
			},
		},
	} {
		for n, step := range steps {
			err := byChanging(func(p *corev1.Pod) { p.OwnerReferences = step(slices.Clone(p.OwnerReferences)) })(t, pods[i])
			if n < len(steps)-1 && err != nil {
				t.Errorf("way %d, step %d: %v", i, n, err)
			}
			if n == len(steps)-1 {
				refusedBy(t, err, "web")
			}
			env.Read(t, client.ObjectKeyFromObject(pods[i]), pods[i])
		}
	}
}
