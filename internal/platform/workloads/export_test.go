package workloads

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// CountKinds returns the names of the kinds that count after a ConfigMap had one text
// after the other, where the text gone stands for its deletion.
func CountKinds(gone string, texts ...string) (names []string) {
	var valid map[string][]kind
	var lists []kindList[kind]
	for _, text := range texts {
		lists = nil
		if text != gone {
			list := kindList[kind]{from: &corev1.ConfigMap{}}
			list.kinds, list.err = workload.ParseKinds(text)
			lists = append(lists, list)
		}
		valid = keepValid(lists, valid)
	}
	for _, kind := range union(lists).Named {
		names = append(names, kind.Kind)
	}
	return names
}
