// Command echoserver stands in for any small server in the tests: it answers with
// its name and both ends of the connection. As `echoserver get URL` it is the
// client, as `echoserver hold ADDRESS` a client that keeps one connection, as `echoserver ask ADDRESS…` one that counts what is
// lost, and under the name of pause it does nothing until it is told to stop.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch {
	case filepath.Base(os.Args[0]) == "pause":
		<-ctx.Done()
	case len(os.Args) == 3 && os.Args[1] == "get":
		err = get(ctx, os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "hold":
		err = hold(ctx, os.Args[2])
	case len(os.Args) > 2 && os.Args[1] == "ask":
		askAll(ctx, os.Args[2:])
	default:
		err = serve(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echoserver:", err)
		return 1
	}
	return 0
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// serve answers on both ports that such servers are usually asked on.
func serve(ctx context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "name=%s remote=%s local=%s\n", name, r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey).(net.Addr))
	})
	failed := make(chan error, 2)
	for _, port := range []string{":80", ":8080"} {
		server := &http.Server{Addr: port, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
