package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// Target is an address that Prometheus scrapes, and the labels of its series.
type Target struct {
	Address string
	Labels  map[string]string
}

// Server is a Prometheus that answers on Address.
type Server struct {
	Address string
	// Dial connects to it; nil for an address of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Arguments writes a configuration into a directory, which gets the data too, and returns the arguments of Prometheus.
func (s *Server) Arguments(dir string, interval time.Duration, ruleFiles []string, targets []Target) ([]string, error) {
	var scraped []any
	for _, t := range targets {
		scraped = append(scraped, map[string]any{"targets": []string{t.Address}, "labels": t.Labels})
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": interval.String(), "scrape_timeout": interval.String(), "evaluation_interval": "1s"},
		"rule_files": ruleFiles, "scrape_configs": []any{map[string]any{"job_name": "limpet", "static_configs": scraped}},
	})
	path := filepath.Join(dir, "prometheus.yaml")
	if err == nil {
		err = os.WriteFile(path, config, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the configuration of Prometheus: %w", err)
	}
	return []string{"--config.file=" + path, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + s.Address}, nil
}

// ErrNoData is returned for a query that returns nothing.
var ErrNoData = errors.New("the query returns no data")

// HasData returns nil when a query returns data.
func (s *Server) HasData(ctx context.Context, query string) error {
	var data struct{ Result []any }
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(query), &data); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	if len(data.Result) == 0 {
		return fmt.Errorf("%s: %w", query, ErrNoData)
	}
	return nil
}

// Evaluated returns nil when Prometheus has so many rules, and has evaluated each without an error.
func (s *Server) Evaluated(ctx context.Context, rules int) error {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := s.get(ctx, "/api/v1/rules", &data); err != nil {
		return err
	}
	found := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if found++; rule.Health != "ok" {
				return fmt.Errorf("the rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if found != rules {
		return fmt.Errorf("found %d rules, want %d", found, rules)
	}
	return nil
}

// get asks the API of Prometheus.
func (s *Server) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address+path, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answer %s: %s", resp.Status, body)
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}
