package disruptions

import (
	"slices"
	"strings"
)

// Vector is a way in which a pod goes or becomes unavailable, as in the table of
// docs/use/budgets.md.
type Vector string

// Vectors.
const (
	Evict      Vector = "evict"
	Delete     Vector = "delete"
	ScaleIn    Vector = "scale-in"
	Update     Vector = "update"
	Resize     Vector = "resize"
	Leave      Vector = "leave"
	Preemption Vector = "preemption"
	Taint      Vector = "taint"
	AdminTaint Vector = "admin-taint"
	PodGC      Vector = "pod-gc"
	NodeEnd    Vector = "node-end"
	Teardown   Vector = "teardown"
	Limpet     Vector = "limpet"
	Lost       Vector = "lost"
	BreakGlass Vector = "break-glass"
)

// accounted are the vectors that no budget refuses by default.
var accounted = []Vector{Preemption, Taint, PodGC, NodeEnd, Teardown, Lost, BreakGlass}

const (
	breakGlassGroup = "limpet.dev:break-glass"
	accounts        = "system:serviceaccount:"
	controllers     = accounts + "kube-system:"
	ourselves       = "system:serviceaccount:limpet-system:limpet-controller"
)

// nodeEnders are the default users of the controller's flag --node-enders.
var nodeEnders = []string{"system:serviceaccount:kube-system:karpenter", "system:serviceaccount:karpenter:karpenter"}

// vectorOf returns the way in which e takes the pod away: before is the pod as it was.
func (s *state) vectorOf(e Event, before *pod) Vector {
	user := strings.TrimPrefix(e.User, controllers)
	switch {
	case slices.Contains(e.Groups, breakGlassGroup):
		return BreakGlass
	case user == "generic-garbage-collector" || user == "namespace-controller" || s.ownerGoes(before):
		return Teardown
	case e.Verb == "delete" && slices.Contains(nodeEnders, e.User) && s.ending[before.Node]:
		return NodeEnd
	case user == "pod-garbage-collector":
		return PodGC
	case user == "node-controller" || user == "taint-eviction-controller":
		return s.taintVector(before.Node)
	case e.User == "system:kube-scheduler":
		return Preemption
	case e.User == ourselves:
		return Limpet
	case e.Subresource == "eviction":
		return Evict
	case e.byController(before) && s.intended(before):
		return Teardown
	case e.byController(before) && s.tooMany(before):
		return ScaleIn
	}
	return Delete
}

// byController reports whether the controller of a pod's workload may have sent the request. The name of a controller
// outside Kubernetes is not known.
func (e Event) byController(p *pod) bool {
	if strings.Contains(p.Owner.Group, ".") {
		return strings.HasPrefix(e.User, accounts)
	}
	return strings.HasPrefix(e.User, controllers)
}

// taintVector tells the taints of a dead node from the taints that an administrator sets.
func (s *state) taintVector(node string) Vector {
	for _, key := range s.taints[node] {
		if key == "node.kubernetes.io/not-ready" || key == "node.kubernetes.io/unreachable" {
			return Taint
		}
	}
	return AdminTaint
}

// ownerGoes reports whether a controller of the pod is gone or being deleted.
func (s *state) ownerGoes(p *pod) bool {
	for _, w := range s.chain(p.Owner) {
		if w.Gone || w.Deleting {
			return true
		}
	}
	return false
}

// intended reports whether a workload asks its controller to delete a pod: a Job that has ended, or a Deployment that
// recreates its pods.
func (s *state) intended(p *pod) bool {
	chain := s.chain(p.Owner)
	return len(chain) > 0 && (chain[0].Kind == "Job" || chain[len(chain)-1].Recreate && chain[0].Replicas == 0)
}

// tooMany reports whether the workload of the pod has more pods than it wants.
func (s *state) tooMany(p *pod) bool {
	chain := s.chain(p.Owner)
	if len(chain) == 0 {
		return false
	}
	top, living := chain[len(chain)-1], 0
	for _, other := range s.pods {
		if all := s.chain(other.Owner); len(all) > 0 && all[len(all)-1] == top && !other.Deleting && !other.Finished {
			living++
		}
	}
	return living > top.Replicas
}

// judges reports whether the budget may refuse the vector.
func (b *Budget) judges(v Vector) bool {
	operation := map[Vector]string{Evict: "EVICT", Update: "UPDATE", Leave: "UPDATE", Resize: "RESIZE"}[v]
	if operation == "" {
		operation = "DELETE"
	}
	if len(b.Operations) > 0 && !slices.Contains(b.Operations, operation) {
		return false
	}
	switch b.Vectors[v] {
	case "Check":
		return true
	case "Allow":
		return false
	}
	return !slices.Contains(accounted, v)
}
