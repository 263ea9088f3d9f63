package folder_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/release/folder"
)

var architectures = []string{"amd64", "arm64"}

func digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var w bytes.Buffer
	a := tar.NewWriter(&w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	var w bytes.Buffer
	z := gzip.NewWriter(&w)
	if _, err := z.Write([]byte(archive(t, files))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// program is the header of a program for a machine, which has no sections.
func program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var w bytes.Buffer
	if err := binary.Write(&w, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// oci is an archive of an image with an empty manifest for each architecture.
func oci(t *testing.T, architectures ...string) string {
	t.Helper()
	files := map[string]string{}
	var manifests []string
	for _, arch := range architectures {
		manifest := fmt.Sprintf(`{"annotations":{"for":%q}}`, arch)
		files["blobs/sha256/"+digest(manifest)] = manifest
		manifests = append(manifests, fmt.Sprintf(`{"digest":"sha256:%s","platform":{"architecture":%q}}`, digest(manifest), arch))
	}
	index := `{"manifests":[` + strings.Join(manifests, ",") + `]}`
	files["blobs/sha256/"+digest(index)] = index
	files["index.json"] = fmt.Sprintf(`{"manifests":[{"digest":"sha256:%s"}]}`, digest(index))
	return archive(t, files)
}

// sound is a release in which each file is as small as it can be.
func sound(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range folder.Expected(architectures) {
		files[name] = "text of " + name
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, p := range folder.Programs {
			files[p+"-linux-"+arch] = program(t, machine)
		}
	}
	files["limpet-agent.oci.tar"], files["limpet-controller.oci.tar"] = oci(t, architectures...), oci(t, architectures...)
	files["limpet-1.2.3.tgz"] = packed(t, map[string]string{
		"limpet/Chart.yaml": "name: limpet\nversion: 1.2.3\n", "limpet/values.yaml": "x", "limpet/values.schema.json": "{}",
	})
	files[folder.Manifests] = packed(t, map[string]string{"limpet/deploy/default/kustomization.yaml": "resources: []\n"})
	var plugins []string
	content := map[string][]byte{}
	for _, platform := range []string{"darwin-arm64", "linux-amd64", "linux-arm64"} {
		name := "kubectl-limpet-" + platform + ".tar.gz"
		files[name] = packed(t, map[string]string{"kubectl-limpet": platform})
		plugins, content[name] = append(plugins, name), []byte(files[name])
	}
	var err error
	if files["krew.yaml"], err = folder.Krew("https://example.test", "v1.2.3", content, plugins); err != nil {
		t.Fatal(err)
	}
	return files
}

// sum writes the checksums of all files.
func sum(files map[string]string) {
	delete(files, "SHA256SUMS")
	var w strings.Builder
	for name, data := range files {
		fmt.Fprintf(&w, "%s  %s\n", digest(data), name)
	}
	files["SHA256SUMS"] = w.String()
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCheck passes a sound release, and names what is wrong with any other.
func TestCheck(t *testing.T) {
	cases := map[string]struct {
		// damage happens before the checksums are made, and late after that.
		damage, late func(files map[string]string)
		want         string
	}{
		"sound":            {want: ""},
		"no manifests":     {damage: func(f map[string]string) { delete(f, "install.yaml") }, want: "install.yaml is missing or empty"},
		"an empty bill":    {damage: func(f map[string]string) { f["limpet-ipam-linux-arm64.spdx.json"] = "" }, want: "limpet-ipam-linux-arm64.spdx.json is missing or empty"},
		"a changed file":   {late: func(f map[string]string) { f["install.yaml"] += "x" }, want: "install.yaml has the checksum"},
		"a file more":      {late: func(f map[string]string) { f["notes.txt"] = "x" }, want: "notes.txt has the checksum"},
		"a sum of no file": {late: func(f map[string]string) { f["SHA256SUMS"] += "00  gone\n" }, want: "SHA256SUMS names gone, which is missing"},
		"another machine":  {damage: func(f map[string]string) { f["limpet-agent-linux-arm64"] = f["limpet-agent-linux-amd64"] }, want: "limpet-agent-linux-arm64 is for EM_X86_64, want EM_AARCH64"},
		"no program":       {damage: func(f map[string]string) { f["limpet-ipam-linux-amd64"] = "#!/bin/sh" }, want: "read binary limpet-ipam-linux-amd64"},
		"one architecture": {damage: func(f map[string]string) { f["limpet-agent.oci.tar"] = oci(t, "amd64") }, want: "it is for [amd64], want [amd64 arm64]"},
		"a changed image": {damage: func(f map[string]string) {
			f["limpet-agent.oci.tar"] = strings.Replace(f["limpet-agent.oci.tar"], `"for":"arm64"`, `"for":"arm65"`, 1)
		}, want: "has the digest"},
		"no chart": {damage: func(f map[string]string) { delete(f, "limpet-1.2.3.tgz") }, want: "charts are [], want one"},
		"a chart of another": {damage: func(f map[string]string) {
			f["limpet-1.2.4.tgz"] = f["limpet-1.2.3.tgz"]
			delete(f, "limpet-1.2.3.tgz")
		}, want: "does not have the version 1.2.4"},
		"a quoted image at the end": {damage: func(f map[string]string) { f["uninstall.yaml"] = `image: "limpet-io/limpet-agent:dev"` }, want: "uninstall.yaml has an image of a checkout"},
		"manifests of a checkout":   {damage: func(f map[string]string) { f["uninstall.yaml"] = "image: limpet-io/limpet-agent:dev\n" }, want: "uninstall.yaml has an image of a checkout"},
		"an archive of a checkout": {damage: func(f map[string]string) {
			f[folder.Manifests] = packed(t, map[string]string{"limpet/deploy/default/kustomization.yaml": "x", "limpet/deploy/x.yaml": "image: limpet-io/limpet-agent:dev\n"})
		}, want: "limpet/deploy/x.yaml has an image of a checkout"},
		"an archive without manifests": {damage: func(f map[string]string) { f[folder.Manifests] = packed(t, nil) }, want: "has no limpet/deploy/default"},
		"another plugin":               {damage: func(f map[string]string) { f["kubectl-limpet-darwin-arm64.tar.gz"] += "x" }, want: "krew.yaml does not have kubectl-limpet-darwin-arm64.tar.gz"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files := sound(t)
			if tc.damage != nil {
				tc.damage(files)
			}
			sum(files)
			if tc.late != nil {
				tc.late(files)
			}
			err := folder.Check(write(t, files), architectures)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestKrewNamesArchives refuses an archive whose name has no platform.
func TestKrewNamesArchives(t *testing.T) {
	if _, err := folder.Krew("https://example.test", "v1", map[string][]byte{"x.tar.gz": nil}, []string{"x.tar.gz"}); err == nil {
		t.Error("no error")
	}
}
