// Package provenance says from what, and by which builder, files were built: an in-toto
// statement (https://in-toto.io/Statement/v1) with the predicate of SLSA
// (https://slsa.dev/spec/v1.0/provenance). The statement is not signed here: a signature
// needs an identity, which the builder of a release has.
package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/limpet-io/limpet/release/component"
)

// predicateType is the type of the predicate in the statement.
const predicateType = "https://slsa.dev/provenance/v1"

// buildType names the way of building: the commands of the Makefile at the commit.
const buildType = "https://github.com/limpet-io/limpet/blob/main/Makefile#build"

// Input holds the facts about one build.
type Input struct {
	Files []Digested
	// Repository and Commit name the source.
	Repository, Commit string
	Version, GoVersion string
	// Builder identifies the builder by a URI.
	Builder string
	// Finished is the time of the commit, so that one commit gives one statement.
	Finished time.Time
	Modules  []component.Module
}

// Digested is a file with its SHA-256 digest in hexadecimal digits.
type Digested struct {
	Name, SHA256 string
}

// Statement returns the in-toto statement as JSON.
func Statement(in Input) ([]byte, error) {
	parameters, err := structpb.NewStruct(map[string]any{"version": in.Version, "target": "build"})
	if err != nil {
		return nil, fmt.Errorf("encode parameters: %w", err)
	}
	predicate := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType: buildType, ExternalParameters: parameters, ResolvedDependencies: dependencies(in),
		},
		RunDetails: &slsa.RunDetails{
			Builder:  &slsa.Builder{Id: in.Builder, Version: map[string]string{"go": in.GoVersion}},
			Metadata: &slsa.BuildMetadata{FinishedOn: timestamppb.New(in.Finished)},
		},
	}
	content, err := toStruct(predicate)
	if err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects(in.Files), PredicateType: predicateType, Predicate: content}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("statement: %w", err)
	}
	out, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode statement: %w", err)
	}
	return indent(out)
}

// indent formats JSON. The encoder's own spaces differ from one build to the next.
func indent(text []byte) ([]byte, error) {
	var compact, w bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("format statement: %w", err)
	}
	if err := json.Indent(&w, compact.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("format statement: %w", err)
	}
	w.WriteByte('\n')
	return w.Bytes(), nil
}

// dependencies names the source and each module with its hash.
func dependencies(in Input) []*intoto.ResourceDescriptor {
	all := []*intoto.ResourceDescriptor{{Uri: "git+" + in.Repository, Digest: map[string]string{"gitCommit": in.Commit}}}
	for _, m := range in.Modules {
		all = append(all, &intoto.ResourceDescriptor{Uri: "pkg:golang/" + m.Path + "@" + m.Version, Digest: map[string]string{"dirHash": m.Sum}})
	}
	return all
}

// subjects names the files.
func subjects(files []Digested) []*intoto.ResourceDescriptor {
	var all []*intoto.ResourceDescriptor
	for _, f := range files {
		all = append(all, &intoto.ResourceDescriptor{Name: f.Name, Digest: map[string]string{"sha256": f.SHA256}})
	}
	return all
}

// toStruct turns a message into the free form that a statement holds.
func toStruct(m proto.Message) (*structpb.Struct, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode predicate: %w", err)
	}
	var s structpb.Struct
	if err := protojson.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode predicate: %w", err)
	}
	return &s, nil
}
