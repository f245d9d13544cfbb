// Test only: takes the definitions of others' kinds out of published modules. It links none of them.
module windrow.dev/tests/cluster/kinds

go 1.25.0
