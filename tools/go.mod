module github.com/catchwater/catchwater/tools

go 1.26.0
