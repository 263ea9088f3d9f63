package board

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Budget is a PodUnavailableBudget, a DistributedPodDisruptionBudget or a PodDisruptionBudget.
type Budget struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Allowed is how many further pods may become unavailable.
	Allowed   int32    `json:"allowed"`
	Available int32    `json:"available"`
	Desired   int32    `json:"desired"`
	Total     int32    `json:"total"`
	Holders   []holder `json:"holders"`
	// Waiting are requests that were refused and may come again.
	Waiting []holder `json:"waiting"`
	// Sites are the budget and its peers, for one that counts over namespaces or clusters.
	Sites []site `json:"sites,omitempty"`
	// Places are the pods of a budget with groups in the order of the ring or row, and what each may do now.
	Places []console.PodNow `json:"places,omitempty"`
	// More is the number of holders, requests and places that are left out.
	More int `json:"more"`
}

// holder is a pod that holds a unit of a budget, or waits for one.
type holder struct {
	Pod string `json:"pod"`
	// Why is how the pod became unavailable.
	Why string `json:"why"`
	// By is the user who asked.
	By    string       `json:"by,omitempty"`
	Since *metav1.Time `json:"since,omitempty"`
}

// site is a budget with its share of the units that several budgets divide.
type site struct {
	Site string `json:"site"`
	// Share is what the site may do: how many of its pods may be away, or must be available.
	Share int32 `json:"share"`
	// Says is what is wrong with the site, or that a request waits there for a unit.
	Says string `json:"says,omitempty"`
	// Since is when the request was refused.
	Since *metav1.Time `json:"since,omitempty"`
}

// lists are the facts that budgets need, by the names of pods and budgets.
type lists struct {
	facts *facts.Facts
	// unready are pods of a namespace that are not available.
	unready map[string][]*corev1.Pod
	// asked is who asked for a pod that may go.
	asked map[key]holder
	// waiting are the refused requests by the budgets of their pods. The budgets of a namespace share a book: refusals of a pod
	// name its budgets.
	waiting map[key][]holder
	// rings are the places of budgets with groups.
	rings map[key][]console.PodNow
}

// budgets returns all budgets in the order of their names. The board makes only those that it keeps.
func budgets(f *facts.Facts) []sized[Budget] {
	g := lists{f, map[string][]*corev1.Pod{}, map[key]holder{}, map[key][]holder{}, map[key][]console.PodNow{}}
	pods, work := map[string]int{}, map[string]int{}
	for i := range f.Pods {
		p := &f.Pods[i]
		pods[p.Namespace]++
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if of := g.unready[p.Namespace]; !ended && len(of) < mostUnready && (p.DeletionTimestamp != nil || !workload.Ready(p)) {
			g.unready[p.Namespace] = append(of, p)
		}
	}
	for i := range f.Books {
		g.read(&f.Books[i])
	}
	all := []sized[Budget]{}
	add := func(o metav1.Object, read func() Budget) {
		whole := sync.OnceValue(read)
		all = append(all, sized[Budget]{
			key: key{o.GetNamespace(), o.GetName()}, parts: func() int { return len(whole().Holders) + len(whole().Waiting) + len(whole().Places) },
			cut: func(most int) Budget { return whole().cut(most) },
		})
	}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		add(b, func() Budget { return g.own(b) })
	}
	for i := range f.Divided {
		b := &f.Divided[i]
		add(b, func() Budget { return g.divided(b) })
	}
	for i := range f.DisruptionBudgets {
		b := &f.DisruptionBudgets[i]
		add(b, func() Budget { return g.foreign(b) })
	}
	for _, b := range all {
		work[b.namespace] += pods[b.namespace]
	}
	g.draw(work)
	slices.SortStableFunc(all, func(a, b sized[Budget]) int { return a.compare(b.key) })
	return all
}

// cut leaves out what exceeds a number of holders, requests and places: places first, then requests.
func (r Budget) cut(most int) Budget {
	r.More += max(0, len(r.Holders)+len(r.Waiting)+len(r.Places)-most)
	r.Holders = r.Holders[:min(len(r.Holders), most)]
	r.Waiting = r.Waiting[:min(len(r.Waiting), most-len(r.Holders))]
	r.Places = r.Places[:min(len(r.Places), most-len(r.Holders)-len(r.Waiting))]
	return r
}

// draw draws the budgets with groups. The work is how many pods a namespace has, times its budgets.
func (g lists) draw(work map[string]int) {
	few := *g.facts
	few.Divided = slices.DeleteFunc(slices.Clone(few.Divided), func(b limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		return work[b.Namespace] > mostWork
	})
	for _, b := range console.Rings(&few) {
		g.rings[key{b.Namespace, b.Name}] = b.Places
	}
}

// read adds what a book tells.
func (g lists) read(book *limpetv1alpha1.DisruptionBook) {
	for _, e := range book.Entries {
		if e.Pod != "" {
			g.asked[key{book.Namespace, e.Pod}] = holder{By: short(e.By), Since: new(metav1.NewTime(e.Since.Time))}
		}
	}
	named := map[string][]string{}
	for _, d := range book.Decisions {
		for _, b := range d.Budgets {
			if d.Verdict == string(budget.Refused) && !slices.Contains(named[d.Pod], b) && len(named[d.Pod]) < mostHolders {
				named[d.Pod] = append(named[d.Pod], b)
			}
		}
	}
	for _, w := range book.Waiting {
		h := holder{Pod: w.Pod, Why: "was refused and may come again", By: short(w.By), Since: new(metav1.NewTime(w.Since.Time))}
		for _, b := range named[w.Pod] {
			k := key{book.Namespace, b}
			g.waiting[k] = append(g.waiting[k], h)
		}
	}
}

// mostUnready is how many unavailable pods of a namespace are compared with its budgets.
const mostUnready = 200

// own returns a PodUnavailableBudget. Its units are held by pods that may go, and by pods that are not available.
func (g lists) own(b *policyv1beta1.PodUnavailableBudget) Budget {
	s := &b.Status
	r := Budget{
		Kind: "PodUnavailableBudget", Namespace: b.Namespace, Name: b.Name,
		Allowed: s.UnavailableAllowed, Available: s.CurrentAvailable, Desired: s.DesiredAvailable, Total: s.TotalReplicas,
	}
	held := map[string]holder{}
	for name, at := range s.DisruptedPods {
		held[name] = holder{Pod: name, Why: "may be deleted or evicted", Since: &at}
	}
	for name, at := range s.UnavailablePods {
		held[name] = holder{Pod: name, Why: "may be changed in place", Since: &at}
	}
	if matcher, err := budget.MatcherOf(b); err == nil {
		g.unavailable(held, b.Namespace, func(p *corev1.Pod) bool { return matcher.Covers(p, g.facts.Chain(p)) })
	}
	for name, h := range held {
		if asked, ok := g.asked[key{b.Namespace, name}]; ok {
			h.By, h.Since = asked.By, asked.Since
			held[name] = h
		}
	}
	r.Waiting = slices.Clone(g.waiting[key{b.Namespace, b.Name}])
	return r.bounded(held)
}

// divided returns a DistributedPodDisruptionBudget, as a PodUnavailableBudget of all its groups.
func (g lists) divided(b *limpetv1alpha1.DistributedPodDisruptionBudget) Budget {
	s := &b.Status
	r := g.own(budget.Undivided(b))
	r.Kind, r.Name = "DistributedPodDisruptionBudget", b.Name
	r.Allowed, r.Available, r.Desired, r.Total = s.DisruptionsAllowed, s.CurrentHealthy, s.CurrentHealthy-s.DisruptionsAllowed, s.ExpectedPods
	if all, drawn := g.rings[key{b.Namespace, b.Name}]; drawn {
		r.Places, r.More = all[:min(len(all), mostPlaces)], r.More+max(0, len(all)-mostPlaces)
	} else if b.Spec.Groups != nil {
		r.More += int(s.ExpectedPods)
	}
	for _, own := range s.Shares[:min(len(s.Shares), 1)] {
		r.Sites = append(r.Sites, siteOf(s.Site, own.Number, "", own.WaitingSince))
	}
	for _, peer := range s.FederatedStatuses {
		r.Sites = append(r.Sites, siteOf(peer.Site, peer.Share, peer.Problem, peer.WaitingSince))
	}
	return r
}

func siteOf(name string, share int32, problem string, since *metav1.Time) site {
	s := site{Site: short(name), Share: share, Says: short(problem), Since: since}
	if problem == "" && since != nil {
		s.Says = "waits for a unit"
	}
	return s
}

// foreign returns a PodDisruptionBudget.
func (g lists) foreign(b *policyv1.PodDisruptionBudget) Budget {
	s := &b.Status
	r := Budget{
		Kind: "PodDisruptionBudget", Namespace: b.Namespace, Name: b.Name,
		Allowed: s.DisruptionsAllowed, Available: s.CurrentHealthy, Desired: s.DesiredHealthy, Total: s.ExpectedPods,
	}
	held := map[string]holder{}
	for name, at := range s.DisruptedPods {
		held[name] = holder{Pod: name, Why: "may be evicted", Since: &at}
	}
	if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
		g.unavailable(held, b.Namespace, func(p *corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) })
	}
	return r.bounded(held)
}

// unavailable adds the pods of a budget that are not available.
func (g lists) unavailable(held map[string]holder, namespace string, covers func(*corev1.Pod) bool) {
	for _, p := range g.unready[namespace] {
		if _, ok := held[p.Name]; !ok && covers(p) {
			h := holder{Pod: p.Name, Why: "is not available: " + console.PodState(p), Since: &p.CreationTimestamp}
			if p.DeletionTimestamp != nil {
				h.Since = p.DeletionTimestamp
			}
			held[p.Name] = h
		}
	}
}

// bounded puts the holders into the budget in the order of their names.
func (r Budget) bounded(held map[string]holder) Budget {
	r.Holders = []holder{}
	for _, h := range held {
		r.Holders = append(r.Holders, h)
	}
	if r.Waiting == nil {
		r.Waiting = []holder{}
	}
	for _, list := range []*[]holder{&r.Holders, &r.Waiting} {
		slices.SortFunc(*list, func(a, b holder) int { return byName(a.Pod, b.Pod) })
		more := max(0, len(*list)-mostHolders)
		*list, r.More = (*list)[:len(*list)-more], r.More+more
	}
	return r
}
