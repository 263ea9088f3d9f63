package multus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// vm is a pod as that of a virtual machine: each has a name of its own, and its network refers to the claim of the machine.
const vm = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"vm"},"annotations":{
  "k8s.v1.cni.cncf.io/networks":"[{\"name\":\"inside\",\"ipam-claim-reference\":\"vm.inside\"}]"}},
  "spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"main","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]}}`

// claimReturns gives the addresses of an IPAMClaim to two pods, one after the other, shows them in the claim, and gives them up
// with it.
func (r *rebuilds) claimReturns(t *testing.T) {
	t.Helper()
	apply(t, r.bed, "claims.yaml")
	kubectl(t, r.bed, "wait", "--for=condition=established", "crd/ipamclaims.k8s.cni.cncf.io", "--timeout=60s")
	apply(t, r.bed, "claim.yaml")
	run := func(name, former string) life {
		file := write(t, fmt.Sprintf(vm, name))
		kubectl(t, r.bed, "apply", "-f", file)
		_, l := r.next(t, "vm", former)
		return l
	}
	const inside = "net2" // as addressesOf names the network
	before := run("vm-1", "")
	await(t, "the address in the status of the claim", func(ctx context.Context) (bool, string) {
		shown, err := r.bed.Kubectl(ctx, "get", "ipamclaim", "vm.inside", "-o", "jsonpath={.status.ips[0]}")
		return err == nil && shown == before.addresses[inside], fmt.Sprint(shown, err)
	})
	kubectl(t, r.bed, "delete", "pod", "vm-1")
	after := run("vm-2", "vm-1")
	if before.node != after.node || before.addresses[inside] == "" || before.addresses[inside] != after.addresses[inside] {
		t.Errorf("vm-1 had %v, and vm-2 has %v", before, after)
	}
	kubectl(t, r.bed, "delete", "ipamclaim", "vm.inside")
	kubectl(t, r.bed, "delete", "pod", "vm-2")
	await(t, "what was kept for the claim to be given up", func(ctx context.Context) (bool, string) {
		shown, err := r.bed.Kubectl(ctx, "get", "ipreservations", "-o", `jsonpath={.items[?(@.status.pod=="k8s.cni.cncf.io/IPAMClaim/vm.inside/ips")].metadata.name}`)
		return err == nil && shown == "", fmt.Sprint(shown, err)
	})
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pod.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
