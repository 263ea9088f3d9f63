package folder

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Manifests is the archive of the directories that kustomizations of users name.
const Manifests = "deploy.tar.gz"

// development is an image with the tag that only a checkout has.
var development = regexp.MustCompile(`(?m)image: .*:dev["']?[ \t]*$`)

// checkManifests looks for manifests with images of a checkout, and for the installation in the archive.
func checkManifests(files map[string][]byte) error {
	all := map[string][]byte{}
	maps.Copy(all, files)
	if len(files[Manifests]) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(files[Manifests]))
		if err != nil {
			return fmt.Errorf("read %s: %w", Manifests, err)
		}
		content, err := entries(z)
		if err != nil {
			return fmt.Errorf("read %s: %w", Manifests, err)
		}
		if content["limpet/deploy/default/kustomization.yaml"] == nil {
			return fmt.Errorf("%s has no limpet/deploy/default", Manifests)
		}
		maps.Copy(all, content)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasSuffix(name, ".yaml") && development.Match(all[name]) {
			errs = append(errs, fmt.Errorf("%s has an image of a checkout", name))
		}
	}
	return errors.Join(errs...)
}
