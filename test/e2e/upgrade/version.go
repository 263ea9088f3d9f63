// Package upgrade takes the parts of Limpet from one version to another and back, one after the other in every order,
// while pods are created, deleted and rebuilt. It tells what each order cost.
package upgrade

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// Part is what is upgraded in one step. The plugin comes with the agent.
type Part string

// The parts of an installation.
const (
	CRDs       Part = "CRDs"
	Controller Part = "controller"
	Agent      Part = "agent"
)

// Version is one version of Limpet: what users apply, part by part.
type Version struct {
	Name      string
	manifests map[Part]string
}

// Render renders the manifests of the own network of a checkout. Images get the name of the version as their tag.
func Render(ctx context.Context, b *bed.Bed, name, repo string) (Version, error) {
	out, err := b.Kubectl(ctx, "kustomize", filepath.Join(repo, "deploy/own-network"))
	if err != nil {
		return Version{}, fmt.Errorf("render manifests of %s: %w", name, err)
	}
	return Version{Name: name, manifests: Split(retag(out, name))}, nil
}

func retag(manifests, tag string) string {
	for _, image := range []string{"limpet-io/limpet-agent:", "limpet-io/limpet-controller:"} {
		manifests = strings.ReplaceAll(manifests, image+"dev", image+tag)
	}
	return manifests
}

// Split divides rendered manifests: the CRDs, the objects of the agent, and all others with the controller.
func Split(manifests string) map[Part]string {
	parts := map[Part]string{}
	for object := range strings.SplitSeq(manifests, "\n---\n") {
		parts[partOf(object)] += object + "\n---\n"
	}
	return parts
}

func partOf(object string) Part {
	_, metadata, _ := strings.Cut("\n"+object, "\nmetadata:\n")
	switch {
	case strings.Contains("\n"+object, "\nkind: CustomResourceDefinition\n"):
		return CRDs
	case strings.HasPrefix(value(metadata, "  name: "), "limpet-agent"):
		return Agent
	default:
		return Controller
	}
}

// value returns the rest of the first line that begins with key.
func value(text, key string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Apply applies parts of the version and waits until they run.
func (v Version) Apply(ctx context.Context, b *bed.Bed, parts ...Part) error {
	for _, p := range parts {
		if _, err := b.KubectlIn(ctx, v.manifests[p], "apply", "-f", "-"); err != nil {
			return fmt.Errorf("apply the %s of %s: %w", p, v.Name, err)
		}
	}
	for _, p := range parts {
		if _, err := b.Kubectl(ctx, awaits[p]...); err != nil {
			return fmt.Errorf("wait for the %s of %s: %w", p, v.Name, err)
		}
	}
	return nil
}

// awaits are the commands that wait for a part.
var awaits = map[Part][]string{
	CRDs:       {"wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"},
	Controller: {"-n", bed.System, "rollout", "status", "deployment/limpet-controller", "--timeout=180s"},
	Agent:      {"-n", bed.System, "rollout", "status", "daemonset/limpet-agent", "--timeout=180s"},
}
