package upgrade

import (
	"context"
	"path/filepath"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// Setup tells what a Runner upgrades.
type Setup struct {
	// Name of the cluster.
	Name string
	// Repo and Older are the checkouts of the newer and of the older version, with their binaries in bin.
	Repo, Older string
	Progress    func(string, ...any)
}

// Start starts a cluster with the older version and the workloads. The caller ends the cluster.
func Start(ctx context.Context, s Setup) (*Runner, error) {
	archives, err := s.archives()
	if err != nil {
		return nil, err
	}
	r := &Runner{Progress: s.Progress}
	_, err = bed.UpWith(ctx, s.Name, s.Repo, s.Progress, func(ctx context.Context, b *bed.Bed) error {
		r.Bed = b
		return r.Install(ctx, s.Older, s.Repo)
	}, func(c *cluster.Config) {
		c.AuditPolicy = AuditPolicy
		c.Images = append(c.Images, archives...)
	})
	return r, err
}

// archives writes the images of both versions, with tags that tell them apart.
func (s Setup) archives() ([]string, error) {
	var all []string
	for tag, repo := range map[string]string{OlderTag: s.Older, NewTag: s.Repo} {
		bin := func(name string) string { return filepath.Join(repo, "bin", name) }
		archive := filepath.Join(s.Repo, "bin", "images-"+s.Name+"-"+tag+".tar")
		err := image.Write(archive, []image.Image{
			{Name: "limpet-io/limpet-agent:" + tag, Files: []string{bin("limpet-agent"), bin("limpet-ipam")}},
			{Name: "limpet-io/limpet-controller:" + tag, Files: []string{bin("limpet-controller")}},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, archive)
	}
	return all, nil
}
