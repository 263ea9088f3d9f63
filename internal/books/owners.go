package books

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kind of the owners, as package policy serves it.
const (
	budgetVersion = "policy.kruise.io/v1beta1"
	budgetKind    = "PodUnavailableBudget"
)

// references are the owner references to budgets. No budget controls a book, because several
// may own it.
func references(budgets []Owner) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, b := range budgets {
		refs = append(refs, metav1.OwnerReference{APIVersion: budgetVersion, Kind: budgetKind, Name: b.Name, UID: b.UID})
	}
	return refs
}

// addOwners adds owner references to those of a book, which stay.
func addOwners(refs, more []metav1.OwnerReference) []metav1.OwnerReference {
	all := slices.Clone(refs)
	for _, ref := range more {
		if !slices.ContainsFunc(all, func(known metav1.OwnerReference) bool { return known.UID == ref.UID }) {
			all = append(all, ref)
		}
	}
	return all
}

// ownersOf are the budgets that own a new book: its own one, if that is among the budgets.
func ownersOf(name string, budgets []Owner) []Owner {
	if i := slices.IndexFunc(budgets, func(b Owner) bool { return string(b.UID) == name }); i >= 0 {
		return budgets[i : i+1]
	}
	return budgets
}
