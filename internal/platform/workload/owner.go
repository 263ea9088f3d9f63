package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the controller of an object, named as in its owner reference.
type Owner struct {
	Target
	UID types.UID
}

// intermediate are the kinds which stand between a pod and the workload that a user wrote.
var intermediate = map[string]string{appsv1.GroupName: "ReplicaSet", batchv1.GroupName: "Job"}

// Intermediate reports whether the owner may itself be controlled by a workload, as a
// ReplicaSet is by a Deployment and a Job by a CronJob.
func (o Owner) Intermediate() bool {
	kind, ok := intermediate[o.Group]
	return ok && kind == o.Kind
}

// mostOwners bounds a chain: owner references can form a cycle.
const mostOwners = 4

// Chain returns the controllers of an object, the nearest first: a pod's ReplicaSet, then
// its Deployment. lookup returns an intermediate owner's object, or nil when it is unknown
// or has another UID; the chain then ends at that owner.
func Chain(o metav1.Object, lookup func(Owner) (metav1.Object, error)) ([]Owner, error) {
	return ChainOver(o, Owner.Intermediate, lookup)
}

// ChainOver is Chain where a caller says which owners may themselves be controlled.
func ChainOver(o metav1.Object, intermediate func(Owner) bool, lookup func(Owner) (metav1.Object, error)) ([]Owner, error) {
	var chain []Owner
	for o != nil && len(chain) < mostOwners {
		owner, ok := ControllerOf(o)
		if !ok {
			break
		}
		chain = append(chain, owner)
		if !intermediate(owner) {
			break
		}
		var err error
		if o, err = lookup(owner); err != nil {
			return chain, err
		}
	}
	return chain, nil
}
