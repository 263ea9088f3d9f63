package simulation

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/test/disruptions"
)

// pod is a pod at a version. Versions are never changed, so that caches can keep them.
type pod struct {
	uid, name, workload, node string
	also                      string // an owner that is not the controller
	kind                      kind   // of the workload
	labels                    map[string]string
	version, generation       int64
	observed, restarts        int64 // the generation that the kubelet has seen, and restarts of the container
	deferred, infeasible      bool  // what the kubelet says of a resize
	ready                     bool
	readySince                time.Time
	deleting, gone            bool
	pending                   bool // no container has started
	gated                     bool // OpenKruise keeps the pod not Ready
	keeps                     bool // asks to keep its place
	image, run                int
}

// kind is a kind of workload, and who makes and deletes its pods.
type kind struct {
	group, name, resource, controller string
	scaled                            bool // the scale alone tells how many pods are wanted
}

// foreign reports whether the kind is none of Kubernetes.
func (k kind) foreign() bool { return strings.Contains(k.group, ".") }

// kinds are the kinds of workload of a schedule.
var kinds = []kind{
	{group: "apps", name: "ReplicaSet", resource: "replicasets", controller: "system:serviceaccount:kube-system:replicaset-controller"},
	{name: "ReplicationController", resource: "replicationcontrollers", controller: "system:serviceaccount:kube-system:replication-controller"},
	{group: "apps.kruise.io", name: "CloneSet", resource: "clonesets", controller: kruise},
	{group: "apps.kruise.io", name: "StatefulSet", resource: "statefulsets", controller: kruise},
	{group: "batch", name: "Job", resource: "jobs", controller: "system:serviceaccount:kube-system:job-controller"},
	{group: "example.com", name: "GameServerSet", resource: "gameserversets", controller: "system:serviceaccount:games:manager", scaled: true},
}

// deployments make and scale ReplicaSets.
var deployments = kind{group: "apps", name: "Deployment", resource: "deployments", controller: "system:serviceaccount:kube-system:deployment-controller"}

// workload makes pods.
type workload struct {
	name     string
	top      string // the Deployment of a ReplicaSet
	kind     kind
	version  int64
	deleting bool // without its pods
	gone     bool
	replicas int
	image    int
	keeps    bool              // the pods ask to keep their places
	labels   map[string]string // of the template
}

// exists reports whether a workload was made, and is not being deleted.
func (w workload) exists() bool { return w.name != "" && !w.deleting && !w.gone }

// store is etcd: objects with versions, and the order of all changes.
type store struct {
	version   int64
	pods      map[string]*pod // by name; the living one
	workloads map[string]workload
	budgets   map[string]disruptions.Budget
	books     map[string]stored
	// podChanges, otherChanges and bookChanges are what caches learn, in order.
	podChanges   []podChange
	otherChanges []otherChange
	bookChanges  []bookChange
	nodes        map[string]nodeState
	uids         int
	pdb          *pdb // nil for none
}

// stored is a book with its version.
type stored struct {
	ledger.Book
	version int64
}

type podChange struct {
	at  time.Time
	pod *pod
}

type otherChange struct {
	at       time.Time
	workload workload
	budget   disruptions.Budget
	node     nodeState
}

// nodeState is what replicas know of a node.
type nodeState struct {
	name   string
	closed bool // takes no pods
	ending bool // is being deleted
}

type bookChange struct {
	at   time.Time
	book stored
}

func newStore() *store {
	return &store{
		pods: map[string]*pod{}, workloads: map[string]workload{}, budgets: map[string]disruptions.Budget{}, books: map[string]stored{},
		nodes: map[string]nodeState{},
	}
}

// write stores a new version of a pod.
func (s *store) write(now time.Time, p pod) *pod {
	s.version++
	p.version = s.version
	p.pending = p.pending && !p.ready
	s.pods[p.name] = &p
	if p.gone {
		delete(s.pods, p.name)
	}
	s.podChanges = append(s.podChanges, podChange{now, &p})
	return &p
}

func (s *store) writeWorkload(now time.Time, w workload) workload {
	s.version++
	w.version = s.version
	s.workloads[w.name] = w
	s.otherChanges = append(s.otherChanges, otherChange{at: now, workload: w})
	return w
}

// topOf names the workload that says how many pods are wanted.
func topOf(all map[string]workload, name string) string {
	if top := all[name].top; top != "" {
		return top
	}
	return name
}

func (s *store) writeBudget(now time.Time, b disruptions.Budget) {
	s.version++
	s.budgets[b.UID] = b
	s.otherChanges = append(s.otherChanges, otherChange{at: now, budget: b})
}

// swap writes a book if its version is the one that was read; 0 for a book that did not exist.
func (s *store) swap(now time.Time, b ledger.Book, version int64) bool {
	if s.books[b.Name].version != version {
		return false
	}
	s.version++
	s.books[b.Name] = stored{b, s.version}
	s.bookChanges = append(s.bookChanges, bookChange{now, s.books[b.Name]})
	return true
}

func (s *store) uid(prefix string) string {
	s.uids++
	return prefix + "-" + strconv.Itoa(s.uids)
}

// living returns the pods that are not terminating, the oldest first.
func (s *store) living(keep func(*pod) bool) []*pod {
	var all []*pod
	for _, p := range s.pods {
		if !p.deleting && keep(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pod) int { return len(a.uid)*1000 - len(b.uid)*1000 + compare(a.uid, b.uid) })
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// shown is the pod as the audit log shows it.
func (p *pod) shown() *disruptions.Pod {
	var others []string
	if p.also != "" {
		others = []string{p.also}
	}
	return &disruptions.Pod{
		Others: others, UID: p.uid, Namespace: namespace, Name: p.name, Node: p.node, Labels: p.labels,
		Owner:      disruptions.Owner{UID: p.workload, Group: p.kind.group, Kind: p.kind.name, Name: p.workload},
		KeepsPlace: p.keeps, Ready: p.ready, ReadySince: p.readySince, Deleting: p.deleting, Pending: p.pending, Infeasible: p.infeasible, Images: strconv.Itoa(p.image), Runs: strconv.Itoa(p.run),
	}
}

func (w workload) shown() *disruptions.Workload {
	return &disruptions.Workload{
		UID: w.name, Namespace: namespace, Group: w.kind.group, Kind: w.kind.name, Name: w.name, Replicas: w.replicas, Labels: w.labels,
		Owner: disruptions.Owner{UID: w.top, Name: w.top}, Deleting: w.deleting, Gone: w.gone, Recreate: w.kind == deployments,
	}
}

// covers reports whether a budget selects the pod; the budgets of a schedule have one label.
func covers(b disruptions.Budget, p *pod) bool {
	for k, v := range b.Selector.MatchLabels {
		if p.labels[k] != v {
			return false
		}
	}
	return true
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

const namespace = "default"
