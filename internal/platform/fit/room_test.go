package fit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/testenv"
)

func TestShortage(t *testing.T) {
	asking := func(cpus int64) corev1.Pod { return *testenv.APod("web-0").Asking(cpus).Pod }
	device := asking(0)
	device.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/device": resource.MustParse("1")}
	none := *testenv.APod("none").Pod
	wrapped := none
	wrapped.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}
	first := *none.DeepCopy()
	first.Spec.InitContainers = asking(9).Spec.Containers
	room := testenv.ANode("n1").WithRoom(3, 8).Node

	cases := map[string]struct {
		node   *corev1.Node
		pod    corev1.Pod
		others []corev1.Pod
		want   corev1.ResourceName
	}{
		"an empty node":                          {room, asking(8), nil, ""},
		"more than the node has":                 {room, asking(9), nil, corev1.ResourceCPU},
		"room beside others":                     {room, asking(2), []corev1.Pod{asking(3), asking(3)}, ""},
		"no room beside others":                  {room, asking(3), []corev1.Pod{asking(3), asking(3)}, corev1.ResourceCPU},
		"no place for one more pod":              {room, none, []corev1.Pod{none, none, none}, corev1.ResourcePods},
		"the last place for a pod":               {room, none, []corev1.Pod{none, none}, ""},
		"a pod that asks for nothing, full node": {room, none, []corev1.Pod{asking(8)}, ""},
		"a pod that asks for zero, full node":    {room, asking(0), []corev1.Pod{asking(9)}, ""},
		"a resource that the node does not have": {room, device, nil, "example.com/device"},
		"what its runtime asks for":              {room, wrapped, nil, corev1.ResourceCPU},
		"what its start asks for":                {room, first, nil, corev1.ResourceCPU},
		"a node that reports nothing":            {testenv.ANode("n1").Node, asking(9), nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := fit.Shortage(tc.node, &tc.pod, tc.others); got != tc.want {
				t.Errorf("shortage of %q, want %q", got, tc.want)
			}
		})
	}
}
