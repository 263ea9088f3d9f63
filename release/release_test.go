package release_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	version  = "v0.0.1"
	registry = "registry.example/limpet"
)

// run runs a program in a directory and returns its standard output.
func run(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var diagnosis strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &diagnosis
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, diagnosis.String())
	}
	return string(out)
}

// TestRelease writes a release for this architecture, and uses it as a user does who has nothing but its folder. It
// needs what `make build assets` made.
func TestRelease(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	programs := os.Getenv("LIMPET_PROGRAMS")
	if programs == "" {
		programs = filepath.Join(root, "bin/assets")
	}
	goCommand := os.Getenv("GO")
	if goCommand == "" {
		goCommand = "go"
	}
	out := filepath.Join(t.TempDir(), "dist")
	run(t, root, []string{
		"VERSION=" + version, "REGISTRY=" + registry, "ARCHITECTURES=" + runtime.GOARCH, "PLUGIN_PLATFORMS=linux/" + runtime.GOARCH,
		"PLUGIN_FLAGS=", "GO=" + goCommand, "LIMPET_PROGRAMS=" + programs,
	}, "release/release.sh", out)

	run(t, out, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	complete(t, out)
	published(t, root, out)
	if said := run(t, out, nil, "./limpet-ipam-linux-"+runtime.GOARCH, "version"); !strings.Contains(said, " "+version+" ") {
		t.Errorf("limpet-ipam version prints %q", said)
	}
	install, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"limpet-agent", "limpet-controller"} {
		if want := "image: " + registry + "/" + image + ":" + version + "\n"; !strings.Contains(string(install), want) {
			t.Errorf("install.yaml has no %s", want)
		}
	}
	manifests(t, root, out, filepath.Join(programs, "kubectl"), string(install))
}

// TestTheWorkflowNeedsNoRoot looks at what the workflow of a release would run: its machine gives it no root.
func TestTheWorkflowNeedsNoRoot(t *testing.T) {
	workflow, err := os.ReadFile("../.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`(?m)^ +- run: (make [a-z-]+|release/publish.sh bin/dist|(?:skopeo|helm registry|cosign) login .*)$`).FindAllStringSubmatch(string(workflow), -1)
	if want := strings.Count(string(workflow), "- run: "); len(steps) != want || want == 0 {
		t.Errorf("%d of %d steps are known here", len(steps), want)
	}
	for _, step := range steps {
		if target, is := strings.CutPrefix(step[1], "make "); is {
			if said := run(t, "..", nil, "make", "--no-print-directory", "-n", target); strings.Contains(said, "limpet-cluster build") || strings.Contains(said, "id -u") {
				t.Errorf("make %s needs root:\n%s", target, said)
			}
		}
	}
}

// complete looks for each file that a release has.
func complete(t *testing.T, out string) {
	t.Helper()
	on := "-linux-" + runtime.GOARCH
	names := strings.Fields(`alerts.yaml crds.yaml deploy.tar.gz monitoring.yaml install.yaml install-adopt-network.yaml install-cert-manager.yaml
		install-flannel.yaml install-given-certificate.yaml install-own-network.yaml install-shared-network.yaml uninstall.yaml krew.yaml limpet-0.0.1.tgz limpet-agent.oci.tar
		limpet-controller.oci.tar`)
	names = append(names, "images"+on+".tar", "provenance"+on+".intoto.json", "kubectl-limpet"+on+".tar.gz", "limpet-agent"+on+".image.spdx.json", "limpet-controller"+on+".image.spdx.json")
	for _, p := range []string{"limpet-ipam", "limpet-agent", "limpet-controller", "kubectl-limpet"} {
		names = append(names, p+on, p+on+".spdx.json")
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
}

// manifests unpacks the archive of the manifests. Each directory of the checkout must be there, and build.
func manifests(t *testing.T, root, out, kubectl, install string) {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, nil, "tar", "-xzf", filepath.Join(out, "deploy.tar.gz"))
	if built := run(t, dir, nil, kubectl, "kustomize", "limpet/deploy/default"); built != install {
		t.Error("limpet/deploy/default of the archive differs from install.yaml")
	}
	kustomizations, err := filepath.Glob(filepath.Join(root, "deploy/*/kustomization.yaml"))
	if err != nil || len(kustomizations) < 15 {
		t.Fatalf("found %d kustomizations, error %v: the test tests little", len(kustomizations), err)
	}
	var components []string
	for _, path := range kustomizations {
		name := filepath.Base(filepath.Dir(path))
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(string(text), "\nkind: Component\n"):
			components = append(components, name)
		default:
			run(t, dir, nil, kubectl, "kustomize", "limpet/deploy/"+name)
		}
	}
	if len(components) < 5 || !slices.Contains(components, "node-network") {
		t.Fatalf("found the components %v: the test tests little", components)
	}
	for _, name := range components {
		text := "resources: [limpet/deploy/own-network]\ncomponents: [limpet/deploy/" + name + "]\n"
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if built := run(t, dir, nil, kubectl, "kustomize", "."); !strings.Contains(built, registry+"/limpet-agent:"+version) {
			t.Errorf("with %s the agent has another image", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "limpet/deploy/examples/flannel.yaml")); err != nil {
		t.Error(err)
	}
}

// published lists what a dry run of publishing would send: each image by the digest that it has, the chart, and all files.
func published(t *testing.T, root, out string) {
	t.Helper()
	would := run(t, root, []string{"VERSION=" + version, "REGISTRY=" + registry, "DRY_RUN=1"}, "release/publish.sh", out)
	for _, name := range []string{"limpet-agent", "limpet-controller"} {
		var index struct{ Manifests []struct{ Digest string } }
		if text := run(t, out, nil, "tar", "-xOf", name+".oci.tar", "index.json"); json.Unmarshal([]byte(text), &index) != nil || len(index.Manifests) != 1 {
			t.Fatalf("index of %s: %s", name, text)
		}
		digest := index.Manifests[0].Digest
		for _, want := range []string{
			"skopeo copy --all --preserve-digests oci-archive:" + name + ".oci.tar docker://" + registry + "/" + name + ":" + version,
			"cosign sign --yes --recursive " + registry + "/" + name + "@" + digest,
			"cosign attest --yes --type spdxjson --predicate " + name + "-linux-" + runtime.GOARCH + ".image.spdx.json " + registry + "/" + name + "@" + digest,
		} {
			if !strings.Contains(would, "would run: "+want+"\n") {
				t.Errorf("a dry run does not print %q:\n%s", want, would)
			}
		}
	}
	for _, want := range []string{"helm push limpet-0.0.1.tgz oci://" + registry + "/charts\n", "sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS\n", " krew.yaml "} {
		if !strings.Contains(would, want) {
			t.Errorf("a dry run does not print %q:\n%s", want, would)
		}
	}
	changed := filepath.Join(t.TempDir(), "changed")
	run(t, root, nil, "cp", "-r", out, changed)
	if err := os.WriteFile(filepath.Join(changed, "krew.yaml"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "release/publish.sh"), changed)
	cmd.Env = append(os.Environ(), "VERSION="+version, "REGISTRY="+registry, "DRY_RUN=1")
	if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), "krew.yaml: FAILED") {
		t.Errorf("a file that was changed is published: %v\n%s", err, said)
	}
}
