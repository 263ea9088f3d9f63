package console

import (
	"fmt"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Keeping is a namespace that asks for the pods of its workloads.
type Keeping struct {
	Namespace string `json:"namespace"`
	For       string `json:"for"`
	// Workloads is how many are served, without those that say something themselves.
	Workloads int `json:"workloads"`
}

// keeping returns the namespaces that ask, and those whose annotation does nothing.
func keeping(f *facts.Facts) (all []Keeping, wrong []Problem) {
	for _, ns := range f.Namespaces {
		request := pin.NearestKeep("", nil, ns.Annotations)
		if pin.AsksFor(ns.Annotations) && workload.IsLeftOut(ns.Name) {
			request.Problem = fmt.Sprintf("%s does nothing in this namespace, whose pods no webhook sees", reservation.KeepAnnotation)
		}
		switch {
		case request.Problem != "":
			wrong = append(wrong, Problem{Attention, "Namespace " + ns.Name, pin.ReasonIgnored, request.Problem, ""})
		case request.Value != "":
			all = append(all, Keeping{Namespace: ns.Name, For: request.Value})
		}
	}
	at := map[string]*Keeping{}
	for i := range all {
		at[all[i].Namespace] = &all[i]
	}
	for _, w := range f.Workloads {
		target := workload.Target{Group: w.Kind.Group, Kind: w.Kind.Kind, Name: w.Name}
		if k := at[w.Namespace]; k != nil && (workload.Kinds{}).Contains(target) && !reservation.Asks(w.Annotations) && !reservation.Asks(w.Template) {
			k.Workloads++
		}
	}
	return all, wrong
}
