// Command second-opinion reads what Windrow reads, with the libraries that RKE2 and Kubernetes read it with, for
// tests that compare the two. It stays, and answers one question after the other: thousands in a second.
//
// A question on standard input is a letter, the length of what follows in four bytes (big-endian), and that. An answer
// is a length and JSON: {"error": "..."}, or {"value": ...}. The questions are in the table `readers`.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"os"
	"strings"

	"github.com/robfig/cron/v3"
	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"windrow.dev/tests/cluster/node/config"
	"windrow.dev/tests/cluster/node/deploy"
)

var readers = map[byte]func(question []byte) (any, error){
	// A manifest: its objects, as the deploy controller reads them.
	'm': func(question []byte) (any, error) { return deploy.Parse(question) },
	// A quantity: {"milli": its value in thousandths, "beyond": has it none in 64 bits?}
	'q': thousandths,
	// {"selector": a label selector, "labels": {...}}: does it match?
	'l': matches,
	// Two versions with a space between them: -1, 0 or 1. Of Kubernetes (v), and by the rules of semver.org (p).
	'v': compared(version.ParseGeneric),
	'p': compared(version.ParseSemantic),
	// A schedule: it can be read.
	's': func(question []byte) (any, error) {
		_, err := cron.ParseStandard(string(question))
		return err == nil, err
	},
	// A list of RKE2's configuration files: its flags, each with its texts.
	'c': flags,
}

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		err := answerOne(in, out)
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
	}
}

func answerOne(in *bufio.Reader, out *bufio.Writer) error {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	question := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(in, question); err != nil {
		return err
	}
	answer := map[string]any{}
	if value, err := safely(head[0], question); err != nil {
		answer["error"] = err.Error()
	} else {
		answer["value"] = value
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		// A value that JSON has not, such as .inf: it cannot be applied.
		encoded, err = json.Marshal(map[string]any{"error": err.Error()})
	}
	if err != nil {
		return err
	}
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(encoded)))
	_, _ = out.Write(length[:])
	_, _ = out.Write(encoded)
	return out.Flush()
}

// safely answers, and says of a reader that panics that it did.
func safely(kind byte, question []byte) (value any, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	read, ok := readers[kind]
	if !ok {
		return nil, fmt.Errorf("no such question: %q", kind)
	}
	return read(question)
}

func thousandths(text []byte) (any, error) {
	quantity, err := resource.ParseQuantity(string(text))
	if err != nil {
		return nil, err
	}
	exact := new(inf.Dec).Round(quantity.AsDec(), 3, inf.RoundUp).UnscaledBig()
	milli := quantity.MilliValue()
	return map[string]any{"milli": milli, "beyond": exact.Cmp(big.NewInt(milli)) != 0}, nil
}

func matches(question []byte) (any, error) {
	var asked struct {
		Selector *metav1.LabelSelector `json:"selector"`
		Labels   map[string]string     `json:"labels"`
	}
	if err := json.Unmarshal(question, &asked); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(asked.Selector)
	if err != nil {
		return nil, err
	}
	return selector.Matches(labels.Set(asked.Labels)), nil
}

func compared(parse func(string) (*version.Version, error)) func([]byte) (any, error) {
	return func(text []byte) (any, error) {
		one, other, _ := strings.Cut(string(text), " ")
		first, err := parse(one)
		if err != nil {
			return nil, err
		}
		second, err := parse(other)
		switch {
		case err != nil:
			return nil, err
		case first.LessThan(second):
			return -1, nil
		case second.LessThan(first):
			return 1, nil
		}
		return 0, nil
	}
}

func flags(question []byte) (any, error) {
	var files []string
	if err := json.Unmarshal(question, &files); err != nil {
		return nil, err
	}
	var merged config.Merged
	for _, file := range files {
		if err := merged.Add([]byte(file)); err != nil {
			return nil, err
		}
	}
	return merged.Flags(), nil
}
