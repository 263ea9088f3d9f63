package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestEveryRightIsExplained compares the table of rights with the roles in deploy/. A row below the heading of an
// account has the right and what it permits to a thief.
func TestEveryRightIsExplained(t *testing.T) {
	var want, got []string
	for _, dir := range []string{"controller", "daemonset", "node-network", "keep-nodes"} {
		want = append(want, rightsIn(t, filepath.Join(root, "deploy", dir, "rbac.yaml"))...)
	}
	account := ""
	for _, line := range section(t, "docs/operate/security.md", "## Rights") {
		if of, ok := strings.CutPrefix(line, "### "); ok {
			account = of
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 4 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("a row needs right, reason, and what a thief can do without and with the policies: %s", line)
			continue
		}
		got = append(got, account+": "+strings.Trim(cells[0], " `"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights in docs/operate/security.md (-in deploy +in the table):\n%s", diff)
	}
}

// rightsIn returns one line for each rule of the roles in a file.
func rightsIn(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder, rights := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096), []string(nil)
	for {
		var role rbacv1.Role // a ClusterRole has the same fields
		switch err := decoder.Decode(&role); {
		case errors.Is(err, io.EOF):
			return rights
		case err != nil:
			t.Fatalf("decode %s: %v", path, err)
		}
		if !strings.HasSuffix(role.Kind, "Role") {
			continue
		}
		account := "limpet-agent"
		if strings.HasPrefix(role.Name, "limpet-controller") {
			account = "limpet-controller"
		}
		for _, rule := range role.Rules {
			rights = append(rights, account+": "+right(rule, role.Namespace))
		}
	}
}

// right describes a rule, such as "get, update secrets named a in limpet-system".
func right(rule rbacv1.PolicyRule, namespace string) string {
	var resources []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resources = append(resources, strings.TrimSuffix(resource+"."+group, "."))
		}
	}
	text := fmt.Sprintf("%s %s", strings.Join(rule.Verbs, ", "), strings.Join(resources, ", "))
	if len(rule.ResourceNames) > 0 {
		text += " named " + strings.Join(rule.ResourceNames, ", ")
	}
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}
