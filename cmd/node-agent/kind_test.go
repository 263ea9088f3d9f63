package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/limpet-io/limpet/internal/testenv"
)

// kindnet is the network configuration of a node of kind.
const kindnet = `{"cniVersion":"0.3.1","name":"kindnet","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/run/cni-ipam-state",` +
	`"routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"10.244.1.0/24"}]]},"mtu":1500},{"type":"portmap","capabilities":{"portMappings":true}}]}`

// TestTheNetworkOfKindIsAdopted builds deploy/kind, and runs its agent. A
// temporary directory stands for the node's.
func TestTheNetworkOfKindIsAdopted(t *testing.T) {
	dir := t.TempDir()
	state, bin, conf := filepath.Join(dir, "state"), filepath.Join(dir, "bin"), filepath.Join(dir, "conf")
	onNode := func(text string) []byte { return []byte(strings.ReplaceAll(text, "/run/cni-ipam-state", state)) }
	root, err := testenv.Root()
	kind, readErr := os.ReadFile(filepath.Join(root, "deploy/kind/kustomization.yaml"))
	kustomization := strings.Replace(string(kind), "../adopt-network", "limpet/deploy/adopt-network", 1)
	at, relErr := filepath.Rel(root, dir)
	err = errors.Join(err, readErr, relErr, os.Symlink(root, filepath.Join(dir, "limpet")), os.Mkdir(bin, 0o755), os.Mkdir(conf, 0o755),
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), onNode(kustomization), 0o600),
		os.WriteFile(filepath.Join(bin, "ptp"), nil, 0o755), os.WriteFile(filepath.Join(conf, "10-kindnet.conflist"), onNode(kindnet), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	objects := env.Render(t, at)
	is := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	var agent appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[is].Object, &agent); err != nil {
		t.Fatal(err)
	}
	pod := agent.Spec.Template.Spec
	mounts := slices.DeleteFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath != state })
	if len(mounts) != 1 || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mounts[0].Name && v.HostPath.Path == state }) {
		t.Errorf("the node's state directory is not at the same path in the container: mounts %+v, volumes %+v", mounts, pod.Volumes)
	}
	startAgent(t, append(pod.Containers[0].Args, "--boot-id-file=/proc/sys/kernel/random/boot_id", "--cni-bin-dir="+bin, "--cni-conf-dir="+conf, "--address=0")...)
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(filepath.Join(conf, "10-kindnet.conflist"))
		if err == nil && !bytes.Contains(data, []byte(`"type": "limpet-ipam"`)) {
			err = fmt.Errorf("the configuration is %s", data)
		}
		return err
	})
}
