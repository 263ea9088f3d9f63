package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

// The cache does not keep the keys that no feature reads. A read by such a key is an error, since
// no object would look like none.
func TestAnIndexIsReadInItsScope(t *testing.T) {
	address := func(pod *corev1.Pod) (keys []string) {
		for _, ip := range pod.Status.PodIPs {
			keys = append(keys, ip.IP)
		}
		return keys
	}
	ns := env.Namespace(t)
	for i := range 3 {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(ns).On("scope").At(fmt.Sprintf("10.99.0.%d", i+1), fmt.Sprintf("fd99::%d", i+1)).Ready()
		env.Create(t, pod.Pod)
	}
	c := cached(t, cluster.Needs{
		Objects: []cluster.Need{cluster.Of(cluster.Phase, func(from, to *corev1.Pod) {
			to.Spec.NodeName, to.Status.PodIPs = from.Spec.NodeName, from.Status.PodIPs
		})},
		Indexes: []cluster.Index{
			cluster.PodsByNode(), cluster.By("ip", address).Everywhere().Scattered(), cluster.By("ip-in", address).InNamespace().Scattered(), cluster.By("ip-any", address),
		},
	})
	in := client.InNamespace(ns)
	for name, tc := range map[string]struct {
		options []client.ListOption
		want    int // pods; less than 0 for an error
	}{
		"by node":                     {[]client.ListOption{client.MatchingFields{"limpet.node": "scope"}}, 3},
		"by node in a namespace":      {[]client.ListOption{in, client.MatchingFields{"limpet.node": "scope"}}, -1},
		"by address":                  {[]client.ListOption{client.MatchingFields{"ip": "fd99::2"}}, 1},
		"by an address of no pod":     {[]client.ListOption{client.MatchingFields{"ip": "fd99::9"}}, 0},
		"by address in a namespace":   {[]client.ListOption{in, client.MatchingFields{"ip-in": "10.99.0.3"}}, 1},
		"… in another namespace":      {[]client.ListOption{client.InNamespace("none"), client.MatchingFields{"ip-in": "10.99.0.3"}}, 0},
		"… everywhere":                {[]client.ListOption{client.MatchingFields{"ip-in": "10.99.0.3"}}, -1},
		"by an index for both scopes": {[]client.ListOption{in, client.MatchingFields{"ip-any": "10.99.0.3"}}, 1},
		"… the other scope":           {[]client.ListOption{client.MatchingFields{"ip-any": "10.99.0.3"}}, 1},
		"by namespace alone":          {[]client.ListOption{in}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var list corev1.PodList
			if err := c.List(t.Context(), &list, tc.options...); (err != nil) != (tc.want < 0) || err == nil && len(list.Items) != tc.want {
				t.Errorf("%d pods, error %v; want %d", len(list.Items), err, tc.want)
			}
		})
	}
}
