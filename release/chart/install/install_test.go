// Package install_test installs the chart on a three-node cluster with Helm's own module.
package install_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"helm.sh/helm/v4/pkg/action"
	helmchart "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/limpet-io/limpet/release/chart"
)

// name is the name of the release.
const name = "limpet"

// namespace holds the record of the release and the pods of the test.
const namespace = "default"

// helm is Helm for one cluster.
type helm struct {
	config *action.Configuration
}

func newHelm(kubeconfig string) (helm, error) {
	flags := genericclioptions.NewConfigFlags(false)
	space := namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &space
	config := action.NewConfiguration()
	if err := config.Init(flags, namespace, "secret"); err != nil {
		return helm{}, fmt.Errorf("set Helm up: %w", err)
	}
	return helm{config}, nil
}

// install installs the chart, as `helm install --wait` does.
func (h helm) install(ctx context.Context, c helmchart.Charter, values map[string]any) error {
	i := action.NewInstall(h.config)
	i.ReleaseName, i.Namespace, i.ServerSideApply = name, namespace, true
	i.WaitStrategy, i.Timeout = kube.StatusWatcherStrategy, 3*time.Minute
	if _, err := i.RunWithContext(ctx, c, values); err != nil {
		return fmt.Errorf("helm install: %w", err)
	}
	return nil
}

func (h helm) upgrade(ctx context.Context, c helmchart.Charter, values map[string]any) error {
	u := action.NewUpgrade(h.config)
	u.Namespace, u.WaitStrategy, u.Timeout = namespace, kube.StatusWatcherStrategy, 3*time.Minute
	if _, err := u.RunWithContext(ctx, name, c, values); err != nil {
		return fmt.Errorf("helm upgrade: %w", err)
	}
	return nil
}

// test rebuilds a pod, as `helm test` does.
func (h helm) test() error {
	r := action.NewReleaseTesting(h.config)
	r.Namespace, r.Timeout = namespace, 4*time.Minute
	_, shutdown, err := r.Run(name)
	if err = errors.Join(err, shutdown()); err != nil {
		return fmt.Errorf("helm test: %w", err)
	}
	return nil
}

func (h helm) uninstall() error {
	u := action.NewUninstall(h.config)
	u.WaitStrategy, u.Timeout = kube.StatusWatcherStrategy, 3*time.Minute
	if _, err := u.Run(name); err != nil {
		return fmt.Errorf("helm uninstall: %w", err)
	}
	return nil
}

// load returns the chart of this checkout, with a change of its files.
func load(change func(files map[string]string)) (helmchart.Charter, error) {
	files, err := chart.Files("../../../deploy", chart.Release{Version: "v0.0.1", Registry: "limpet-io", Tag: "dev"})
	if err != nil {
		return nil, err
	}
	change(files)
	var buffered []*archive.BufferedFile
	for _, f := range slices.Sorted(maps.Keys(files)) {
		buffered = append(buffered, &archive.BufferedFile{Name: f, Data: []byte(files[f])})
	}
	return loader.LoadFiles(buffered)
}

// former makes an older chart: one CRD has another short name.
func former(files map[string]string) {
	const crd = "templates/customresourcedefinition_ipreservations.limpet.dev.yaml"
	files[crd] = strings.Replace(files[crd], "    - ipr\n", "    - former\n", 1)
}

// TestInstallUpgradeUninstall walks the way of a cluster: a release is installed, upgraded, removed and
// installed again. A pod comes home each time, and no object of a user is lost.
func TestInstallUpgradeUninstall(t *testing.T) {
	ctx := t.Context()
	older, err := load(former)
	if err != nil {
		t.Fatal(err)
	}
	current, err := load(func(map[string]string) {})
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]any{"mode": "own"}
	values := map[string]any{"network": own}
	var h helm
	b, err := bed.UpWith(ctx, "chart", "../../..", t.Logf, func(ctx context.Context, b *bed.Bed) (err error) {
		if h, err = newHelm(b.Cluster.Kubeconfig()); err != nil {
			return err
		}
		t.Log("helm install")
		return h.install(ctx, older, values)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), b))
		}
		if err := b.Down(); err != nil {
			t.Error(err)
		}
	})
	c := cluster{t, b}
	c.kubectlIn(set, "apply", "-f", "-")
	home := c.ready("web-0", "")
	home = c.returns(home)

	t.Log("helm upgrade")
	if err := h.upgrade(ctx, current, map[string]any{"network": own, "breakGlass": map[string]any{"enabled": true}, "agent": map[string]any{"goMemoryLimit": "56MiB"}}); err != nil {
		t.Fatal(err)
	}
	c.says("ipr", "get", "crd", "ipreservations.limpet.dev", "-o", "jsonpath={.spec.names.shortNames[0]}")
	c.says("clusterrole.rbac.authorization.k8s.io/limpet-break-glass", "get", "clusterrole", "limpet-break-glass", "-o", "name")
	c.says("56MiB", "get", "-n", bed.System, "daemonset", "limpet-agent", "-o", "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='GOMEMLIMIT')].value}")
	if err := b.AwaitLimpet(ctx); err != nil {
		t.Fatal(err)
	}
	home = c.returns(home)

	t.Log("helm test")
	if err := h.test(); err != nil {
		t.Errorf("%v\n%s", err, c.kubectl("-n", bed.System, "logs", "limpet-test"))
	}
	for _, kind := range []string{"clusterrole", "clusterrolebinding"} {
		c.says("", "get", kind, "limpet-test", "-o", "name", "--ignore-not-found") // rights do not stay
	}

	t.Log("helm uninstall, with a running pod and a reserved address")
	c.kubectl("scale", "statefulset", "web", "--replicas=0")
	c.await("the reservation of web-0", func(ctx context.Context) (bool, string) {
		out := c.kubectl("get", "ipreservations", "-o", "jsonpath={range .items[?(@.status.pod=='web-0')]}{.status.state}{end}") //nolint:contextcheck // it has the context of the test
		return out == "Reserved", out
	})
	c.kubectlIn(strings.ReplaceAll(set, "web", "stays"), "apply", "-f", "-")
	c.ready("stays-0", "")
	if err := h.uninstall(); err != nil {
		t.Fatal(err)
	}
	c.removed()
	c.says("Reserved", "get", "ipreservations", "-o", "jsonpath={range .items[?(@.status.pod=='web-0')]}{.status.state}{end}")
	c.says("persistentpodstate.apps.kruise.io/web", "get", "persistentpodstates", "web", "-o", "name")
	stays := c.ready("stays-0", "")
	c.kubectl("delete", "pod", "stays-0", "--timeout=60s")
	c.ready("stays-0", stays.UID)

	t.Log("helm install, over the CRDs that stayed")
	if err := h.install(ctx, current, values); err != nil {
		t.Fatal(err)
	}
	if err := b.AwaitLimpet(ctx); err != nil {
		t.Fatal(err)
	}
	c.kubectl("scale", "statefulset", "web", "--replicas=1")
	c.same(home, c.ready("web-0", home.UID))
}

// removed waits until nothing of Limpet runs, and checks that no pod hangs.
func (c cluster) removed() {
	c.t.Helper()
	c.await("the namespace to be gone", func(ctx context.Context) (bool, string) {
		_, err := c.bed.Client.CoreV1().Namespaces().Get(ctx, bed.System, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	c.await("no pod to be Terminating", func(ctx context.Context) (bool, string) {
		pods, err := c.bed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		ending := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
		return len(ending) == 0, fmt.Sprintf("%d pods end", len(ending))
	})
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "clusterrole"} {
		if out := c.kubectl("get", kind, "-o", "name"); strings.Contains(out, "limpet") {
			c.t.Errorf("helm uninstall left %s", out)
		}
	}
	crds := c.kubectl("get", "crd", "-o", "name")
	for _, crd := range []string{
		"persistentpodstates.apps.kruise.io", "workloadspreads.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
		"borrowedaddresses.limpet.dev", "disruptionbooks.limpet.dev", "ipreservations.limpet.dev", "nodeippools.limpet.dev",
		"distributedpoddisruptionbudgets.limpet.dev",
	} {
		if !strings.Contains(crds, "/"+crd+"\n") {
			c.t.Errorf("helm uninstall deleted the CRD %s", crd)
		}
	}
}
