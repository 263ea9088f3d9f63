package books

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// MostBudgets is how many budgets may cover one pod.
const MostBudgets = 32

// Options are what Books need.
type Options struct {
	Client client.Writer
	Cached client.Reader // a cache with Needs
	Live   client.Reader // reads past the cache
	Clock  clock.PassiveClock
}

// Books keeps books in API objects.
type Books struct {
	Options

	memory memory
	mu     sync.Mutex
	lanes  map[client.ObjectKey][]*request // that wait for the lane's present write
	notes  map[client.ObjectKey][]note     // that wait for any write; a key means that a timer runs
}

// New returns books.
func New(options Options) *Books {
	return &Books{Options: options, lanes: map[client.ObjectKey][]*request{}, notes: map[client.ObjectKey][]note{}}
}

// nameOfBudgets is the name of the book of a namespace's budgets. No spread has this UID.
const nameOfBudgets = "00000000-0000-0000-0000-000000000000"

// Key tells which book is meant.
type Key struct {
	object client.ObjectKey
	owners []metav1.OwnerReference // none for budgets
}

// OfBudgets is the book of all budgets of a namespace. Nothing owns it: it stays as long as the namespace.
func OfBudgets(namespace string) Key {
	return Key{object: client.ObjectKey{Namespace: namespace, Name: nameOfBudgets}}
}

// The kind of a WorkloadSpread, as package apps serves it.
const (
	spreadVersion = "apps.kruise.io/v1beta1"
	spreadKind    = "WorkloadSpread"
)

// OfSpread is the book of the creations of a WorkloadSpread, which owns it.
func OfSpread(spread metav1.Object) Key {
	return Key{
		object: client.ObjectKey{Namespace: spread.GetNamespace(), Name: string(spread.GetUID())},
		owners: []metav1.OwnerReference{{APIVersion: spreadVersion, Kind: spreadKind, Name: spread.GetName(), UID: spread.GetUID()}},
	}
}

// Needs are the whole books.
func Needs() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{cluster.Of[*limpetv1alpha1.DisruptionBook]()}}
}
