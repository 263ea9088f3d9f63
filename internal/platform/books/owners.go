package books

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// The kinds of the owners, as packages policy and apps serve them.
const (
	budgetVersion = "policy.kruise.io/v1beta1"
	budgetKind    = "PodUnavailableBudget"
	spreadVersion = "apps.kruise.io/v1beta1"
	spreadKind    = "WorkloadSpread"
	podKind       = "Pod"
)

// references are the owner references to budgets, or to a spread. No owner controls a book,
// because several may own it.
func references(owners []Owner) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, o := range owners {
		ref := metav1.OwnerReference{APIVersion: budgetVersion, Kind: budgetKind, Name: o.Name, UID: o.UID}
		if o.Spread {
			ref.APIVersion, ref.Kind = spreadVersion, spreadKind
		}
		refs = append(refs, ref)
	}
	return refs
}

// ofSpread tells whether a book is the one of a spread. Its entries are no disruptions.
func ofSpread(refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.Kind == spreadKind })
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

// mostPods is how many pods own a book.
const mostPods = 16

// withPods adds references to the first pods that are changed in place: their entries outlive a budget
// that is made again. Such a change may take hours, any other entry is over in seconds.
func withPods(refs []metav1.OwnerReference, book ledger.Book) []metav1.OwnerReference {
	most := len(refs) + mostPods
	for _, uid := range slices.Sorted(maps.Keys(book.Entries)) {
		if e := book.Entries[uid]; e.Use.InPlace() && len(refs) < most {
			refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: podKind, Name: e.Pod, UID: types.UID(uid)})
		}
	}
	return refs
}

// withoutPods are the references to budgets, or to a spread.
func withoutPods(refs []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.Kind == podKind })
}

// ownersOf are the budgets that own a new book: its own one, if that is among the budgets.
func ownersOf(name string, budgets []Owner) []Owner {
	if i := slices.IndexFunc(budgets, func(b Owner) bool { return string(b.UID) == name }); i >= 0 {
		return budgets[i : i+1]
	}
	return budgets
}
