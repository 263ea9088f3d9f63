package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/limpet-io/limpet/release/component"
	"github.com/limpet-io/limpet/release/image"
	"github.com/limpet-io/limpet/release/license"
	"github.com/limpet-io/limpet/release/provenance"
	"github.com/limpet-io/limpet/release/sbom"
)

const repository = "https://github.com/limpet-io/limpet"

// licences checks the licence of each module, and prints how many have which.
func (e environment) licences(ctx context.Context, args []string) error {
	_, files, err := readAll(args, "")
	if err != nil {
		return err
	}
	binaries := files.binaries
	found, err := e.findLicences(ctx, component.Union(binaries))
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range component.Union(binaries) {
		if err := license.Check(found[m]); err != nil {
			errs = append(errs, fmt.Errorf("module %s@%s: %w", m.Path, m.Version, err))
		}
	}
	if len(errs) == 0 {
		_, _ = fmt.Fprintf(e.stdout, "%d modules, all under %s\n", len(found), strings.Join(license.Allowed, ", "))
	}
	return errors.Join(errs...)
}

// boms writes the bill of materials of each binary and of each image.
func (e environment) boms(ctx context.Context, args []string) error {
	dir, files, err := readAll(args, "--dir")
	if err != nil {
		return err
	}
	found, err := e.findLicences(ctx, component.Union(files.binaries))
	if err != nil {
		return err
	}
	src, err := readSource(ctx)
	if err != nil {
		return err
	}
	byDigest := map[string]sbom.Input{}
	for _, b := range files.binaries {
		sum, err := digest(b.Path)
		if err != nil {
			return err
		}
		byDigest[sum] = sbom.Input{Binary: b, Version: src.version, SHA256: sum, Created: src.when, Licences: found}
		if err := writeBOM(dir, b.Name, sbom.New(byDigest[sum])); err != nil {
			return err
		}
	}
	for _, i := range files.images {
		in, err := contents(i, byDigest)
		if err != nil {
			return err
		}
		if err := writeBOM(dir, i.Base()+".image", sbom.NewImage(in)); err != nil {
			return err
		}
	}
	return nil
}

// contents finds the binaries of an image. A file that is none of them would be in no bill.
func contents(i image.Image, binaries map[string]sbom.Input) (sbom.ImageInput, error) {
	in := sbom.ImageInput{Name: i.Name, ID: i.ID}
	for _, f := range i.Files {
		b, known := binaries[f.SHA256]
		if !known || f.Path != "/"+b.Binary.Name {
			return in, fmt.Errorf("image %s has the file %s, which is none of the named binaries", i.Name, f.Path)
		}
		in.Binaries = append(in.Binaries, b)
	}
	if len(in.Binaries) == 0 {
		return in, fmt.Errorf("image %s has no file", i.Name)
	}
	return in, nil
}

func writeBOM(dir, name string, doc *v2_3.Document) error {
	var w bytes.Buffer
	if err := spdxjson.Write(doc, &w, spdxjson.Indent("  ")); err != nil {
		return fmt.Errorf("encode bill of materials of %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".spdx.json"), w.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write bill of materials: %w", err)
	}
	return nil
}

// provenances writes one provenance of all binaries and images.
func (e environment) provenances(ctx context.Context, args []string) error {
	out, files, err := readAll(args, "--out")
	if err != nil {
		return err
	}
	src, err := readSource(ctx)
	if err != nil {
		return err
	}
	in := provenance.Input{
		Repository: repository, Commit: src.commit, Version: src.version, GoVersion: files.binaries[0].GoVersion, Finished: src.when,
		Builder: e.builder, Modules: component.Union(files.binaries),
	}
	for _, b := range files.binaries {
		sum, err := digest(b.Path)
		if err != nil {
			return err
		}
		in.Files = append(in.Files, provenance.Digested{Name: b.Name, SHA256: sum})
	}
	for _, i := range files.images {
		in.Files = append(in.Files, provenance.Digested{Name: i.Name, SHA256: i.ID})
	}
	text, err := provenance.Statement(in)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, text, 0o644); err != nil {
		return fmt.Errorf("write provenance: %w", err)
	}
	return nil
}

// released is the files of a release.
type released struct {
	binaries []component.Binary
	images   []image.Image
}

// readAll returns the value of a flag, what the named binaries were built from, and the images of
// the named archives.
func readAll(args []string, flag string) (value string, all released, err error) {
	value, paths, err := parse(args, flag)
	if err != nil {
		return "", all, err
	}
	for _, p := range paths {
		if filepath.Ext(p) == ".tar" {
			images, err := image.Read(p)
			if err != nil {
				return "", all, err
			}
			all.images = append(all.images, images...)
			continue
		}
		b, err := component.Read(p)
		if err != nil {
			return "", all, err
		}
		all.binaries = append(all.binaries, b)
	}
	if len(all.binaries) == 0 {
		return "", all, fmt.Errorf("%w: name at least one binary", errUsage)
	}
	return value, all, nil
}

// findLicences finds the licences of all modules, and names each module without one.
func (e environment) findLicences(ctx context.Context, modules []component.Module) (map[component.Module][]string, error) {
	dirs, err := component.Directories(ctx, e.goCommand, modules)
	if err != nil {
		return nil, err
	}
	finder, err := license.NewFinder()
	if err != nil {
		return nil, err
	}
	found := map[component.Module][]string{}
	var errs []error
	for _, m := range modules {
		if found[m], err = finder.Of(dirs[m]); err != nil {
			errs = append(errs, fmt.Errorf("module %s@%s: %w", m.Path, m.Version, err))
		}
	}
	return found, errors.Join(errs...)
}

// source is the commit that the binaries were built from.
type source struct {
	version, commit string
	when            time.Time
}

func readSource(ctx context.Context) (source, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return "", fmt.Errorf("ask git for the commit: %w", err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	version, err1 := git("describe", "--always", "--dirty", "--tags")
	commit, err2 := git("rev-parse", "HEAD")
	stamp, err3 := git("show", "-s", "--format=%cI", "HEAD")
	if err := errors.Join(err1, err2, err3); err != nil {
		return source{}, err
	}
	when, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return source{}, fmt.Errorf("time of the commit: %w", err)
	}
	return source{version: version, commit: commit, when: when}, nil
}

// digest returns the SHA-256 digest of a file in hexadecimal digits.
func digest(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
