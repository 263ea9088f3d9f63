package nodeinit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is the address of the registry of a node, which only the node itself reaches.
const Registry = "127.0.0.1:5000"

// document is what a registry answers for a path.
type document struct {
	mediaType string
	data      []byte
}

// serveImages starts a registry with the images of the node.
func (s *supervisor) serveImages() error {
	shelf := map[string]document{"/v2/": {"application/json", []byte("{}")}}
	archives, err := filepath.Glob("/limpet/images/*.tar")
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, a := range archives {
		if err := shelve(shelf, a); err != nil {
			return fmt.Errorf("serve images of %s: %w", a, err)
		}
	}
	listener, err := net.Listen("tcp", Registry)
	if err != nil {
		return fmt.Errorf("serve images: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, is := shelf[r.URL.Path]
		if !is {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", found.mediaType)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(found.data))
	})}
	go server.Serve(listener) //nolint:errcheck // it serves as long as the node is on
	return nil
}

// shelve adds the images of an archive under their names, without the registry of the name.
func shelve(shelf map[string]document, archive string) error {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil {
		return err
	}
	for _, described := range manifest {
		for _, text := range described.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				return err
			}
			img, err := tarball.ImageFromPath(archive, &tag)
			if err != nil {
				return err
			}
			if err := shelveImage(shelf, tag, img); err != nil {
				return fmt.Errorf("%s: %w", tag, err)
			}
		}
	}
	return nil
}

func shelveImage(shelf map[string]document, tag name.Tag, img v1.Image) error {
	at := "/v2/" + tag.RepositoryStr()
	raw, errRaw := img.RawManifest()
	config, errConfig := img.RawConfigFile()
	manifest, errManifest := img.Manifest()
	digest, errDigest := img.Digest()
	layers, errLayers := img.Layers()
	if err := errors.Join(errRaw, errConfig, errManifest, errDigest, errLayers); err != nil {
		return err
	}
	described := document{string(manifest.MediaType), raw}
	shelf[at+"/manifests/"+tag.TagStr()], shelf[at+"/manifests/"+digest.String()] = described, described
	shelf[at+"/blobs/"+manifest.Config.Digest.String()] = document{"application/octet-stream", config}
	for i, l := range layers {
		r, err := l.Compressed()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		shelf[at+"/blobs/"+manifest.Layers[i].Digest.String()] = document{"application/octet-stream", data}
	}
	return nil
}
