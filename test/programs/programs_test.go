package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/programs"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(programs.Var), &env))
}

func TestEveryListedProgramStarts(t *testing.T) {
	for _, name := range programs.Names() {
		t.Run(name, func(t *testing.T) {
			path, err := programs.Find(os.Getenv(programs.Var), name)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"--version"}
			if name == "kubectl" {
				args = []string{"version", "--client"}
			}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env = append(os.Environ(), "CNI_COMMAND=VERSION") // a CNI plugin has no flags
			cmd.Stdin = strings.NewReader(`{"cniVersion":"1.0.0"}`)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		})
	}
}

func TestNothingButListedProgramsIsThere(t *testing.T) {
	entries, err := os.ReadDir(os.Getenv(programs.Var))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(programs.Names(), e.Name()) {
			t.Errorf("%s lies beside the listed programs", e.Name())
		}
	}
}

// The API server runs already. The scheduler places a pod.
func TestSchedulerPlacesAPod(t *testing.T) {
	env.StartScheduler(t)
	node := testenv.ANode("start").WithRoom(1, 1)
	pod := testenv.APod("start").In(env.Namespace(t))
	env.Create(t, node.Node, pod.Pod)
	testenv.Eventually(t, func() error {
		got := &corev1.Pod{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod.Pod), got); err != nil {
			return err
		}
		if got.Spec.NodeName != "start" {
			return os.ErrNotExist
		}
		return nil
	})
}

func TestFindNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubelet"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ dir, program, want string }{
		"a program that is there by chance": {dir, "kubelet", "programs.txt"},
		"no directory":                      {"", "etcd", programs.Var},
		"a program that was not built":      {dir, "etcd", "make test"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := programs.Find(tc.dir, tc.program)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Find(%q, %q): %v, want an error that names %s", tc.dir, tc.program, err, tc.want)
			}
		})
	}
}
