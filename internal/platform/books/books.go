package books

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Bounds of what a tenant can make out of budgets.
const (
	// MostBudgets is how many budgets may cover one pod.
	MostBudgets = 32
	// MostOwners is how many budgets may share one book.
	MostOwners = 256
)

// Errors that callers turn into refusals.
var (
	// ErrManyBudgets is returned when too many budgets cover a pod or share pods.
	ErrManyBudgets = errors.New("too many budgets share pods")
	// ErrFull is returned for a join that would make a book too large. It can be made when entries have ended.
	ErrFull = errors.New("too many pods are on their way out")
)

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

// Owner is a budget, or the spread whose creations a book holds.
type Owner struct {
	Name string
	UID  types.UID
	// Spread tells that the owner is a WorkloadSpread. Its book is never joined.
	Spread bool
}

// Needs are the whole books.
func Needs() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{cluster.Of[*limpetv1alpha1.DisruptionBook]()}}
}

// namesOf returns the names of the books of budgets.
func namesOf(budgets []Owner) ([]string, error) {
	var names []string
	for _, b := range budgets {
		if !isUID(string(b.UID)) {
			return nil, fmt.Errorf("find book of %s: %q is no UID", b.Name, b.UID)
		}
		names = append(names, string(b.UID))
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > MostBudgets {
		return nil, fmt.Errorf("%w: %d budgets cover one pod, at most %d may", ErrManyBudgets, len(names), MostBudgets)
	}
	return names, nil
}

// isUID tells whether a name is a UID as the API server makes them. Books of other names were
// not made by this package.
func isUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}
