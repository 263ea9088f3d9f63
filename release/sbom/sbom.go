// Package sbom writes the software bill of materials of a binary, as SPDX 2.3
// (https://spdx.github.io/spdx-spec/v2.3).
package sbom

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
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

// New returns the document: one package for the binary, which contains one for the standard
// library and one for each module.
func New(in Input) *v2_3.Document {
	main := &v2_3.Package{
		PackageName: in.Binary.Name, PackageSPDXIdentifier: "binary", PackageVersion: in.Version, PackageDownloadLocation: unspecified,
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: unspecified,
		PackageChecksums:      []common.Checksum{{Algorithm: common.SHA256, Value: in.SHA256}},
		PrimaryPackagePurpose: "APPLICATION",
	}
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: in.Binary.Name,
		DocumentNamespace: "https://github.com/limpet-io/limpet/spdx/" + in.Binary.Name + "-" + in.SHA256,
		CreationInfo: &v2_3.CreationInfo{
			Created:  in.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "limpet-release"}},
		},
		Packages:      []*v2_3.Package{main},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", "binary")},
	}
	parts := []*v2_3.Package{standardLibrary(in.Binary.GoVersion)}
	for _, m := range in.Binary.Modules {
		parts = append(parts, ofModule(m, in.Licences[m]))
	}
	for _, p := range parts {
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relation("binary", "CONTAINS", string(p.PackageSPDXIdentifier)))
	}
	return doc
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
