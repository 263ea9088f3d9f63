package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
)

// DeploymentSize keeps how many pods a Deployment wants.
func DeploymentSize(from, to *appsv1.Deployment) { to.Spec.Replicas = from.Spec.Replicas }

// StatefulSetSize keeps how many pods a StatefulSet wants.
func StatefulSetSize(from, to *appsv1.StatefulSet) { to.Spec.Replicas = from.Spec.Replicas }

// ReplicaSetSize keeps how many pods a ReplicaSet wants.
func ReplicaSetSize(from, to *appsv1.ReplicaSet) { to.Spec.Replicas = from.Spec.Replicas }

// JobSize keeps how many pods a Job wants at a time, and how many have succeeded.
func JobSize(from, to *batchv1.Job) {
	to.Spec.Parallelism, to.Spec.Completions, to.Spec.Suspend = from.Spec.Parallelism, from.Spec.Completions, from.Spec.Suspend
	to.Status.Succeeded = from.Status.Succeeded
}
