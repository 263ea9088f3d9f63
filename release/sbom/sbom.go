// Package sbom writes the software bill of materials of a binary or an image, as SPDX 2.3
// (https://spdx.github.io/spdx-spec/v2.3).
package sbom

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/limpet-io/limpet/release/component"
)

// unspecified is the value of SPDX fields about which nothing is said.
const unspecified = "NOASSERTION"

// Input holds the facts about one binary.
type Input struct {
	Binary  component.Binary
	Version string
	// SHA256 is the digest of the binary in hexadecimal digits.
	SHA256 string
	// Created is the time of the commit, so that one commit gives one document.
	Created time.Time
	// Licences are the SPDX identifiers of each module.
	Licences map[component.Module][]string
}

// ImageInput holds the facts about one container image.
type ImageInput struct {
	// Name is the name of the image with its tag, ID the digest of its configuration.
	Name, ID string
	// Binaries are all files of the image.
	Binaries []Input
}

// New returns the document of a binary: one package for the binary, which contains one for the
// standard library and one for each module.
func New(in Input) *v2_3.Document {
	doc := document(in.Binary.Name, in.SHA256, in.Created)
	addBinary(doc, "DOCUMENT", "DESCRIBES", "binary", in)
	return doc
}

// NewImage returns the document of an image: one package for the image, which contains one for
// each binary. There is nothing else in an image: no base, no shell and no file without a package.
func NewImage(in ImageInput) *v2_3.Document {
	first := in.Binaries[0]
	base, _, _ := strings.Cut(path.Base(in.Name), ":")
	doc := document(base+"-image", in.ID, first.Created)
	main := whole(in.Name, "image", first.Version, in.ID)
	main.PrimaryPackagePurpose = "CONTAINER"
	main.PackageComment = "The checksum is the image ID: the digest of the configuration, which names the layers."
	doc.Packages = append(doc.Packages, main)
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", "DESCRIBES", "image"))
	for _, b := range in.Binaries {
		addBinary(doc, "image", "CONTAINS", identifier("binary-"+b.Binary.Name), b)
	}
	return doc
}

func document(name, digest string, created time.Time) *v2_3.Document {
	return &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: "https://github.com/limpet-io/limpet/spdx/" + name + "-" + digest,
		CreationInfo: &v2_3.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "limpet-release"}},
		},
	}
}

// whole describes what this repository makes.
func whole(name string, id common.ElementID, version, sha256 string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: unspecified,
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: unspecified,
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sha256}},
	}
}

// addBinary adds a binary with its parts. Parts that another binary of the document has are there
// already.
func addBinary(doc *v2_3.Document, parent, kind string, id common.ElementID, in Input) {
	main := whole(in.Binary.Name, id, in.Version, in.SHA256)
	main.PrimaryPackagePurpose = "APPLICATION"
	doc.Packages = append(doc.Packages, main)
	doc.Relationships = append(doc.Relationships, relation(parent, kind, string(id)))
	parts := []*v2_3.Package{standardLibrary(in.Binary.GoVersion)}
	for _, m := range in.Binary.Modules {
		parts = append(parts, ofModule(m, in.Licences[m]))
	}
	for _, p := range parts {
		if !slices.ContainsFunc(doc.Packages, func(o *v2_3.Package) bool { return o.PackageSPDXIdentifier == p.PackageSPDXIdentifier }) {
			doc.Packages = append(doc.Packages, p)
		}
		doc.Relationships = append(doc.Relationships, relation(string(id), "CONTAINS", string(p.PackageSPDXIdentifier)))
	}
}

// standardLibrary describes the standard library, which has the version of the compiler.
func standardLibrary(goVersion string) *v2_3.Package {
	version := strings.TrimPrefix(goVersion, "go")
	p := part("stdlib", version, "pkg:golang/stdlib@"+version)
	p.PackageLicenseConcluded, p.PackageLicenseDeclared = "BSD-3-Clause", "BSD-3-Clause"
	return p
}

// ofModule describes a module. Its checksum is that of go.sum, the hash of the list of its
// files' hashes.
func ofModule(m component.Module, licences []string) *v2_3.Package {
	p := part(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	p.PackageDownloadLocation = "https://" + m.Path
	if len(licences) > 0 {
		p.PackageLicenseConcluded = strings.Join(licences, " AND ")
		p.PackageLicenseDeclared = p.PackageLicenseConcluded
	}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
		p.PackageComment = "go.sum h1 in hexadecimal digits: " + hex.EncodeToString(sum)
	}
	return p
}

// part describes a part of the binary, with the name under which databases of
// vulnerabilities know it.
func part(name, version, purl string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: identifier(name + "-" + version), PackageVersion: version,
		PackageDownloadLocation: unspecified, PackageLicenseConcluded: unspecified, PackageLicenseDeclared: unspecified, PackageCopyrightText: unspecified,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
		}},
	}
}

// forbidden matches what an identifier of SPDX may not hold.
var forbidden = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func identifier(name string) common.ElementID {
	return common.ElementID(forbidden.ReplaceAllString(name, "-"))
}

// relation relates two elements of the document.
func relation(a, kind, b string) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.MakeDocElementID("", a), Relationship: kind, RefB: common.MakeDocElementID("", b),
	}
}
