package main

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The agent reads the whole state under the lock that starts and ends of pods wait for. On a
// node whose CPUs are all asked for, its request is the share of a CPU that it gets.
func TestTheAgentIsNotStarvedWithTheLock(t *testing.T) {
	const (
		work = 400 * time.Millisecond // to read 50 000 addresses
		wait = 20 * time.Second       // ipam.lockWait
	)
	objects := env.Manifest(t, "deploy/daemonset/daemonset.yaml")
	var d appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &d); err != nil {
		t.Fatal(err)
	}
	resources := d.Spec.Template.Spec.Containers[0].Resources
	share := resources.Requests.Cpu().AsApproximateFloat64()
	if took := time.Duration(float64(work) / share); took > wait/4 {
		t.Errorf("with a share of %v CPUs the agent has the lock for %s, want a quarter of the %s that a pod waits", share, took, wait)
	}
	if limit, has := resources.Limits["cpu"]; has {
		t.Errorf("a limit of %s stops the agent while it has the lock", &limit)
	}
}
