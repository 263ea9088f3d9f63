package budget_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
)

const account = "system:serviceaccount:kube-system:"

// disruption gives a pod the condition DisruptionTarget.
func disruption(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
		})
	}
}

func noExecute(keys ...string) []corev1.Taint {
	var out []corev1.Taint
	for _, key := range keys {
		out = append(out, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return out
}

func tolerating(tolerations ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
}

// Each way in which a pod goes, with its default. Rows are those of docs/use/budgets.md.
func TestVectorOf(t *testing.T) {
	deadNode := noExecute(corev1.TaintNodeUnreachable)
	forFiveMinutes := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))}
	cases := map[string]struct {
		facts budget.Facts
		want  budget.Vector
	}{
		"kubectl drain":                   {budget.Facts{Verb: budget.VerbEvict, User: "alice"}, budget.Evict},
		"cluster-autoscaler":              {budget.Facts{Verb: budget.VerbEvict, User: account + "cluster-autoscaler"}, budget.Evict},
		"kubectl delete pod":              {budget.Facts{Verb: budget.VerbDelete, User: "alice"}, budget.Delete},
		"Karpenter's deletion":            {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:karpenter:karpenter"}, budget.Delete},
		"Karpenter at a deadline":         {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:karpenter:karpenter", EndsNodes: true, NodeDeleting: true}, budget.NodeEnd},
		"Karpenter, and the node stays":   {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:karpenter:karpenter", EndsNodes: true}, budget.Delete},
		"Karpenter that evicts":           {budget.Facts{Verb: budget.VerbEvict, User: "system:serviceaccount:karpenter:karpenter", EndsNodes: true, NodeDeleting: true}, budget.Evict},
		"a user, and the node goes":       {budget.Facts{Verb: budget.VerbDelete, User: "alice", NodeDeleting: true}, budget.Delete},
		"a kubelet that deletes":          {budget.Facts{Verb: budget.VerbDelete, User: "system:node:n1"}, budget.Delete},
		"a ReplicaSet that is scaled in":  {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller", Owner: budget.OwnerLiving, OwnerWants: 3, OwnerHas: 5, WorkloadWants: 3}, budget.ScaleIn},
		"a StatefulSet that is scaled in": {budget.Facts{Verb: budget.VerbDelete, User: account + "statefulset-controller", Owner: budget.OwnerLiving, OwnerWants: 0, OwnerHas: 1}, budget.ScaleIn},
		"the old ReplicaSet of a rollout": {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller", Owner: budget.OwnerLiving, OwnerWants: 2, OwnerHas: 3, WorkloadWants: 3}, budget.Delete},
		"a StatefulSet's rollout":         {budget.Facts{Verb: budget.VerbDelete, User: account + "statefulset-controller", Owner: budget.OwnerLiving, OwnerWants: 3, OwnerHas: 3, WorkloadWants: 3}, budget.Delete},
		"a Recreate's old ReplicaSet":     {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller", Owner: budget.OwnerLiving, OwnerHas: 3, WorkloadWants: 3, Intended: true}, budget.Teardown},
		"a Recreate that is scaled in":    {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller", Owner: budget.OwnerLiving, OwnerHas: 3, Intended: true}, budget.ScaleIn},
		"a user, of a Job":                {budget.Facts{Verb: budget.VerbDelete, User: "alice", Owner: budget.OwnerLiving, Intended: true}, budget.Delete},
		"a Job past its deadline":         {budget.Facts{Verb: budget.VerbDelete, User: account + "job-controller", Owner: budget.OwnerLiving, OwnerHas: 3, OwnerWants: 3, WorkloadWants: 3, Intended: true}, budget.Teardown},
		"the same, by one user":           {budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerLiving, Intended: true}, budget.Teardown},
		"a pod of a Job evicted":          {budget.Facts{Verb: budget.VerbEvict, User: account + "job-controller", Intended: true}, budget.Evict},
		"an owner without its pods":       {budget.Facts{Verb: budget.VerbUpdate, User: account + "generic-garbage-collector", Leaves: true, Owner: budget.OwnerDeleting}, budget.None},
		"an owner that is gone":           {budget.Facts{Verb: budget.VerbUpdate, User: account + "generic-garbage-collector", Leaves: true, Owner: budget.OwnerGone}, budget.None},
		"the garbage collector, lives":    {budget.Facts{Verb: budget.VerbUpdate, User: account + "generic-garbage-collector", Leaves: true, Owner: budget.OwnerLiving}, budget.Leave},
		"a user, the owner is deleted":    {budget.Facts{Verb: budget.VerbUpdate, User: "alice", Leaves: true, Owner: budget.OwnerDeleting}, budget.Leave},
		"a CloneSet that is scaled in":    {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:kruise-system:kruise-manager", Foreign: true, Owner: budget.OwnerLiving, OwnerHas: 2}, budget.ScaleIn},
		"a CloneSet's rollout":            {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:kruise-system:kruise-manager", Foreign: true, Owner: budget.OwnerLiving, OwnerWants: 2, WorkloadWants: 2, OwnerHas: 2}, budget.Delete},
		"a user, of a CloneSet":           {budget.Facts{Verb: budget.VerbDelete, User: "alice", Foreign: true, Owner: budget.OwnerLiving, OwnerHas: 2}, budget.Delete},
		"a CloneSet without its pods":     {budget.Facts{Verb: budget.VerbUpdate, User: account + "generic-garbage-collector", Leaves: true}, budget.None},
		"the same, by a user":             {budget.Facts{Verb: budget.VerbUpdate, User: "alice", Leaves: true}, budget.Leave},
		"the same, by one user for all":   {budget.Facts{Verb: budget.VerbUpdate, User: "system:kube-controller-manager", Leaves: true}, budget.Leave},
		"a ReplicaSet, sizes unknown":     {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller"}, budget.Delete},
		"the old ReplicaSet of a Rollout": {budget.Facts{Verb: budget.VerbDelete, User: account + "replicaset-controller", OwnerWants: 2, OwnerHas: 3}, budget.Delete},
		"a user while there is a surplus": {budget.Facts{Verb: budget.VerbDelete, User: "alice", Owner: budget.OwnerLiving, OwnerHas: 5, OwnerWants: 3, WorkloadWants: 3}, budget.Delete},
		"scale-in by a kube-controller-manager with one user": {
			budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerLiving, OwnerWants: 3, OwnerHas: 5, WorkloadWants: 3}, budget.ScaleIn,
		},
		"rollout by a kube-controller-manager with one user": {
			budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerLiving}, budget.Delete,
		},
		"an update of the image":                 {budget.Facts{Verb: budget.VerbUpdate, User: "alice", Change: budget.Change{Restarts: true}}, budget.Update},
		"an unavailable label":                   {budget.Facts{Verb: budget.VerbUpdate, User: "alice", Change: budget.Change{Marks: true}}, budget.Update},
		"an update of an annotation":             {budget.Facts{Verb: budget.VerbUpdate, User: "alice"}, budget.None},
		"a change out of a budget":               {budget.Facts{Verb: budget.VerbUpdate, User: "alice", Leaves: true}, budget.Leave},
		"a change of image and budget":           {budget.Facts{Verb: budget.VerbUpdate, Change: budget.Change{Restarts: true}, Leaves: true}, budget.Update},
		"a resize that restarts":                 {budget.Facts{Verb: budget.VerbResize, Change: budget.Change{Restarts: true}}, budget.Resize},
		"a resize that does not":                 {budget.Facts{Verb: budget.VerbResize}, budget.None},
		"a resize out of a budget":               {budget.Facts{Verb: budget.VerbResize, Leaves: true}, budget.Leave},
		"an update while the namespace goes":     {budget.Facts{Verb: budget.VerbUpdate, Change: budget.Change{Restarts: true}, NamespaceDeleting: true}, budget.Update},
		"garbage of a deleted owner":             {budget.Facts{Verb: budget.VerbDelete, User: account + "generic-garbage-collector", Owner: budget.OwnerGone}, budget.Teardown},
		"garbage of an owner in deletion":        {budget.Facts{Verb: budget.VerbDelete, User: account + "generic-garbage-collector", Owner: budget.OwnerDeleting}, budget.Teardown},
		"garbage of an owner that is not read":   {budget.Facts{Verb: budget.VerbDelete, User: account + "generic-garbage-collector"}, budget.Teardown},
		"garbage of one user":                    {budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerGone}, budget.Teardown},
		"the namespace controller":               {budget.Facts{Verb: budget.VerbDelete, User: account + "namespace-controller"}, budget.Teardown},
		"a drain of a namespace that goes":       {budget.Facts{Verb: budget.VerbEvict, User: "alice", NamespaceDeleting: true}, budget.Teardown},
		"preemption":                             {budget.Facts{Verb: budget.VerbDelete, User: "system:kube-scheduler", Pod: readyPod(disruption("PreemptionByScheduler"))}, budget.Preemption},
		"an unreachable node":                    {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Pod: readyPod(tolerating(forFiveMinutes)), Taints: deadNode}, budget.Taint},
		"a node that is not ready":               {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Taints: noExecute(corev1.TaintNodeNotReady)}, budget.Taint},
		"an administrator's taint":               {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Taints: noExecute("maintenance")}, budget.AdminTaint},
		"both taints":                            {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Pod: readyPod(), Taints: noExecute("maintenance", corev1.TaintNodeUnreachable)}, budget.AdminTaint},
		"both, and the pod tolerates one":        {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Pod: readyPod(tolerating(corev1.Toleration{Key: "maintenance", Operator: corev1.TolerationOpExists})), Taints: noExecute("maintenance", corev1.TaintNodeUnreachable)}, budget.Taint},
		"both, and the pod tolerates one a time": {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Pod: readyPod(tolerating(corev1.Toleration{Key: "maintenance", Operator: corev1.TolerationOpExists}, corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(1))})), Taints: noExecute("maintenance", corev1.TaintNodeUnreachable)}, budget.AdminTaint},
		"a taint of another effect": {
			budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller", Taints: []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}}, budget.AdminTaint,
		},
		"no taint is known":     {budget.Facts{Verb: budget.VerbDelete, User: account + "node-controller"}, budget.AdminTaint},
		"the taint of a device": {budget.Facts{Verb: budget.VerbDelete, User: account + "device-taint-eviction-controller", Taints: deadNode}, budget.AdminTaint},
		"a taint, by one user": {
			budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Pod: readyPod(disruption("DeletionByTaintManager")), Taints: deadNode}, budget.Taint,
		},
		"a condition of the past, and one user": {
			budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Taints: deadNode, Pod: readyPod(disruption("DeletionByTaintManager"), func(p *corev1.Pod) {
				p.Status.Conditions[1].Status = corev1.ConditionFalse
			})}, budget.Delete,
		},
		"PodGC":           {budget.Facts{Verb: budget.VerbDelete, User: account + "pod-garbage-collector"}, budget.PodGC},
		"Limpet":          {budget.Facts{Verb: budget.VerbDelete, User: "system:serviceaccount:limpet-system:limpet-controller", ByLimpet: true}, budget.Limpet},
		"Limpet's evict":  {budget.Facts{Verb: budget.VerbEvict, ByLimpet: true}, budget.Limpet},
		"an unknown verb": {budget.Facts{Verb: "connect"}, budget.Delete},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := budget.VectorOf(tc.facts); got != tc.want {
				t.Errorf("vector %q, want %q", got, tc.want)
			}
		})
	}
}

// A tenant may create pods and service accounts in its namespace, and may write what its
// pods' status says. None of that may open a budget.
func TestVectorOfTakesNoForgedSign(t *testing.T) {
	forged := []string{"PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC", "DeletionByDeviceTaintManager", "TerminationByKubelet", "EvictionByEvictionAPI"}
	users := []string{
		"alice", "kube-scheduler", "system:kube-scheduler2", "generic-garbage-collector", "",
		"system:serviceaccount:shop:generic-garbage-collector", "system:serviceaccount:shop:node-controller",
		"system:serviceaccount:shop:pod-garbage-collector", "system:serviceaccount:shop:namespace-controller",
		"system:serviceaccount:shop:replicaset-controller", "system:serviceaccount:kube-system2:node-controller",
		"system:serviceaccount:kube-system:", "system:node:n1", "system:serviceaccount:shop:limpet-controller",
	}
	for _, user := range users {
		for _, reason := range forged {
			f := budget.Facts{
				Verb: budget.VerbDelete, User: user, Pod: readyPod(disruption(reason)),
				// signs of the cluster that are there for another reason
				Taints: noExecute(corev1.TaintNodeUnreachable), Owner: budget.OwnerGone, OwnerHas: 9, OwnerWants: 1, WorkloadWants: 1, Intended: true,
			}
			if got := budget.VectorOf(f); got != budget.Delete {
				t.Errorf("user %q with the condition %s: vector %q, want %q", user, reason, got, budget.Delete)
			}
			f.Verb = budget.VerbEvict
			if got := budget.VectorOf(f); got != budget.Evict {
				t.Errorf("user %q with the condition %s: vector %q, want %q", user, reason, got, budget.Evict)
			}
		}
	}
	cases := map[string]budget.Facts{
		"an owner reference with a wrong UID, while the workload lives": {
			Verb: budget.VerbDelete, User: account + "generic-garbage-collector", Owner: budget.OwnerLiving,
		},
		"a condition of PodGC, and a rollout by the one user": {
			Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerLiving, Pod: readyPod(disruption("DeletionByPodGC")),
		},
		"a condition of the scheduler, and a rollout by the one user": {
			Verb: budget.VerbDelete, User: "system:kube-controller-manager", Owner: budget.OwnerLiving, Pod: readyPod(disruption("PreemptionByScheduler")),
		},
		"a condition of a controller, and a rollout": {
			Verb: budget.VerbDelete, User: account + "replicaset-controller", Owner: budget.OwnerLiving, Pod: readyPod(disruption("DeletionByTaintManager")), Taints: noExecute(corev1.TaintNodeUnreachable),
		},
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			if got := budget.VectorOf(f); got.Default() != budget.Check {
				t.Errorf("vector %q is %s by default", got, got.Default())
			}
		})
	}
	t.Run("a condition of the taint manager without a taint", func(t *testing.T) {
		f := budget.Facts{Verb: budget.VerbDelete, User: "system:kube-controller-manager", Pod: readyPod(disruption("DeletionByTaintManager"))}
		if got := budget.VectorOf(f); got != budget.AdminTaint {
			t.Errorf("vector %q, want %q", got, budget.AdminTaint)
		}
	})
}

func TestDefaults(t *testing.T) {
	want := map[budget.Vector]budget.Policy{
		budget.Evict: budget.Check, budget.Delete: budget.Check, budget.ScaleIn: budget.Check, budget.Update: budget.Check,
		budget.Resize: budget.Check, budget.Leave: budget.Check, budget.AdminTaint: budget.Check, budget.Limpet: budget.Check,
		budget.Preemption: budget.Allow, budget.Taint: budget.Allow, budget.PodGC: budget.Allow, budget.NodeEnd: budget.Allow, budget.Teardown: budget.Allow,
		budget.Lost: budget.Allow,
	}
	for v, policy := range want {
		if got := v.Default(); got != policy {
			t.Errorf("%s is %s by default, want %s", v, got, policy)
		}
	}
}
