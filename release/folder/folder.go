// Package folder checks the folder of a release: it is complete, and what it holds is what the names say.
package folder

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Programs is the programs of a release.
var Programs = []string{"limpet-ipam", "limpet-agent", "limpet-controller", "kubectl-limpet"}

// machines is the ELF machine of each architecture.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// sums is the name of the file with the checksums.
const sums = "SHA256SUMS"

// Expected returns the names of the files that a release must have, but for the chart, whose name has the version.
func Expected(architectures []string) []string {
	names := []string{
		sums, "alerts.yaml", "crds.yaml", "deploy.tar.gz", "monitoring.yaml", "install.yaml", "install-adopt-network.yaml", "install-cert-manager.yaml",
		"install-flannel.yaml", "install-given-certificate.yaml", "install-own-network.yaml", "uninstall.yaml", "krew.yaml", "limpet-agent.oci.tar", "limpet-controller.oci.tar",
	}
	for _, arch := range architectures {
		on := "-linux-" + arch
		names = append(names, "images"+on+".tar", "provenance"+on+".intoto.json", "kubectl-limpet"+on+".tar.gz",
			"limpet-agent"+on+".image.spdx.json", "limpet-controller"+on+".image.spdx.json")
		for _, p := range Programs {
			names = append(names, p+on, p+on+".spdx.json")
		}
	}
	slices.Sort(names)
	return names
}

// Check checks a release for these architectures.
func Check(dir string, architectures []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read folder of release: %w", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("read file of release: %w", err)
		}
	}
	var errs []error
	for _, name := range Expected(architectures) {
		if len(files[name]) == 0 {
			errs = append(errs, fmt.Errorf("%s is missing or empty", name))
		}
	}
	errs = append(errs, checkSums(files), checkChart(files), checkKrew(files), checkManifests(files))
	for _, arch := range architectures {
		for _, p := range Programs {
			errs = append(errs, checkBinary(p+"-linux-"+arch, files, machines[arch]))
		}
	}
	for _, image := range []string{"limpet-agent.oci.tar", "limpet-controller.oci.tar"} {
		if err := checkImage(files[image], architectures); err != nil {
			errs = append(errs, fmt.Errorf("image %s: %w", image, err))
		}
	}
	return errors.Join(errs...)
}

// checkSums compares the checksum of each file with that in the list. A file that is not listed is an error.
func checkSums(files map[string][]byte) error {
	listed := map[string]string{}
	for l := range strings.Lines(string(files[sums])) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(l), "  "); ok {
			listed[name] = sum
		}
	}
	var errs []error
	for name, data := range files {
		if name != sums && listed[name] != digest(data) {
			errs = append(errs, fmt.Errorf("%s has the checksum %s, %s has %q", name, digest(data), sums, listed[name]))
		}
		delete(listed, name)
	}
	for name := range listed {
		errs = append(errs, fmt.Errorf("%s names %s, which is missing", sums, name))
	}
	return errors.Join(errs...)
}

func checkBinary(name string, files map[string][]byte, want elf.Machine) error {
	f, err := elf.NewFile(bytes.NewReader(files[name]))
	if err != nil {
		return fmt.Errorf("read binary %s: %w", name, err)
	}
	if f.Machine != want {
		return fmt.Errorf("binary %s is for %s, want %s", name, f.Machine, want)
	}
	return nil
}

// checkChart looks for the archive of one chart, with its description and its values.
func checkChart(files map[string][]byte) error {
	var charts []string
	for name := range files {
		if strings.HasPrefix(name, "limpet-") && strings.HasSuffix(name, ".tgz") {
			charts = append(charts, name)
		}
	}
	if len(charts) != 1 {
		return fmt.Errorf("charts are %v, want one", charts)
	}
	z, err := gzip.NewReader(bytes.NewReader(files[charts[0]]))
	if err != nil {
		return fmt.Errorf("read chart %s: %w", charts[0], err)
	}
	content, err := entries(z)
	if err != nil {
		return fmt.Errorf("read chart %s: %w", charts[0], err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(charts[0], "limpet-"), ".tgz")
	if !bytes.Contains(content["limpet/Chart.yaml"], []byte("\nversion: "+version+"\n")) {
		return fmt.Errorf("the chart %s does not have the version %s", charts[0], version)
	}
	if content["limpet/values.yaml"] == nil || content["limpet/values.schema.json"] == nil {
		return fmt.Errorf("the chart %s has no values or no schema", charts[0])
	}
	return nil
}

// checkKrew looks for the checksum of each archive of the plugin.
func checkKrew(files map[string][]byte) error {
	var errs []error
	for name, data := range files {
		if !strings.HasPrefix(name, "kubectl-limpet-") || !strings.HasSuffix(name, ".tar.gz") {
			continue
		}
		if !bytes.Contains(files["krew.yaml"], []byte(digest(data))) || !bytes.Contains(files["krew.yaml"], []byte("/"+name+"\n")) {
			errs = append(errs, fmt.Errorf("krew.yaml does not have %s with its checksum", name))
		}
	}
	return errors.Join(errs...)
}

// manifest is what the check reads of an index or a manifest of an image.
type manifest struct {
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			Architecture string `json:"architecture"`
		} `json:"platform"`
	} `json:"manifests"`
}

// checkImage checks the digests of an OCI archive, and for which architectures its image is.
func checkImage(data []byte, architectures []string) error {
	content, err := entries(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for name, blob := range content {
		if dir, sum := path.Split(name); dir == "blobs/sha256/" && sum != digest(blob) {
			return fmt.Errorf("the blob %s has the digest %s", sum, digest(blob))
		}
	}
	var top, index manifest
	if err := json.Unmarshal(content["index.json"], &top); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if len(top.Manifests) != 1 {
		return fmt.Errorf("it has %d images, want one", len(top.Manifests))
	}
	if err := json.Unmarshal(content["blobs/sha256/"+strings.TrimPrefix(top.Manifests[0].Digest, "sha256:")], &index); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	var found []string
	for _, m := range index.Manifests {
		found = append(found, m.Platform.Architecture)
		if content["blobs/sha256/"+strings.TrimPrefix(m.Digest, "sha256:")] == nil {
			return fmt.Errorf("the manifest for %s is missing", m.Platform.Architecture)
		}
	}
	if !slices.Equal(found, architectures) {
		return fmt.Errorf("it is for %v, want %v", found, architectures)
	}
	return nil
}

// entries returns the files of an archive.
func entries(r io.Reader) (map[string][]byte, error) {
	content := map[string][]byte{}
	t := tar.NewReader(r)
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return content, nil
		}
		if err != nil {
			return nil, fmt.Errorf("next entry: %w", err)
		}
		if content[path.Clean(header.Name)], err = io.ReadAll(t); err != nil {
			return nil, fmt.Errorf("read %s: %w", header.Name, err)
		}
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
